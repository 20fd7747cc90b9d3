"""The built-in kinds that we use, with views of the parts we read."""

from datum_compute.api.core.access import *  # noqa: F403
from datum_compute.api.core.objects import *  # noqa: F403
from datum_compute.api.core.pods import *  # noqa: F403
