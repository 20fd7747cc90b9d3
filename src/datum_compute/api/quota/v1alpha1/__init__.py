"""Milo's quota kinds: what can be counted, what is granted and to whom, what is claimed."""

from datum_compute.api.quota.v1alpha1.allowances import *  # noqa: F403
from datum_compute.api.quota.v1alpha1.claims import *  # noqa: F403
from datum_compute.api.quota.v1alpha1.policies import *  # noqa: F403
