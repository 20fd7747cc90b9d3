"""Milo's resource manager: who the tenants are, and the control plane each project is."""

from datum_compute.api.resourcemanager.v1alpha1.organizations import *  # noqa: F403
from datum_compute.api.resourcemanager.v1alpha1.projects import *  # noqa: F403
