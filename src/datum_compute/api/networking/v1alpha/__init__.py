"""The network-services kinds that compute reads and writes.

Compute's cells ask for networks with a NetworkBinding and a SubnetClaim; who fulfils them
is network-services' matter, or locally its stand-in's.
"""

from datum_compute.api.networking.v1alpha.constants import *  # noqa: F403
from datum_compute.api.networking.v1alpha.locations import *  # noqa: F403
from datum_compute.api.networking.v1alpha.networks import *  # noqa: F403
from datum_compute.api.networking.v1alpha.subnets import *  # noqa: F403
