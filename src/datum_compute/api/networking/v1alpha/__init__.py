"""The network-services kinds that compute reads and writes.

Cells request networks with a NetworkBinding and a SubnetClaim; network-services fulfils
them, or locally its stand-in.
"""

from datum_compute.api.networking.v1alpha.constants import *  # noqa: F403
from datum_compute.api.networking.v1alpha.locations import *  # noqa: F403
from datum_compute.api.networking.v1alpha.networks import *  # noqa: F403
from datum_compute.api.networking.v1alpha.subnets import *  # noqa: F403
