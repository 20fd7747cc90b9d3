"""The provider that runs each Instance as one Pod in the cluster of its cell.

:mod:`.spec` builds the Pod, :mod:`.states` reads its status, :mod:`.provider` does the calls.
"""

from datum_compute.providers.pod.provider import PodProvider
from datum_compute.providers.pod.settings import PodSettings

__all__ = ["PodProvider", "PodSettings"]
