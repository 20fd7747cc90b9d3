"""Milo's resource manager: organizations, and projects, each of which is a control plane."""

from datum_compute.api.resourcemanager.v1alpha1.organizations import *  # noqa: F403
from datum_compute.api.resourcemanager.v1alpha1.projects import *  # noqa: F403
