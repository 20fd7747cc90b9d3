"""Milo's service catalogue: what providers offer, and which of it a project may use.

Service and ServiceConfiguration are in the root plane; a project requests a service with a
ServiceEntitlement in its own.
"""

from datum_compute.api.services.v1alpha1.catalogue import *  # noqa: F403
from datum_compute.api.services.v1alpha1.configuration import *  # noqa: F403
from datum_compute.api.services.v1alpha1.entitlements import *  # noqa: F403
