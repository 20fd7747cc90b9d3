"""The Karmada kinds that compute touches or reads on the hub.

A PropagationPolicy claims templates by label; Karmada makes a ResourceBinding for each,
picks clusters, and writes one Work per cluster, whose manifest the member receives.
"""

from datum_compute.api.karmada.bindings import *  # noqa: F403
from datum_compute.api.karmada.clusters import *  # noqa: F403
from datum_compute.api.karmada.constants import *  # noqa: F403
from datum_compute.api.karmada.interpreter import *  # noqa: F403
from datum_compute.api.karmada.policies import *  # noqa: F403
from datum_compute.api.karmada.works import *  # noqa: F403
