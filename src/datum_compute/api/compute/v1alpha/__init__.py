"""The compute kinds: Workload, WorkloadDeployment, Instance, and their constants.

Import the package as ``compute`` and read everything from it: ``compute.INSTANCES``,
``compute.Instance``, ``compute.LABEL_WORKLOAD_UID``, ``compute.REASON_QUOTA_EXCEEDED``.
"""

from datum_compute.api.compute.constants import *  # noqa: F403
from datum_compute.api.compute.instance_types import *  # noqa: F403
from datum_compute.api.compute.reasons import *  # noqa: F403
from datum_compute.api.compute.v1alpha.instance import *  # noqa: F403
from datum_compute.api.compute.v1alpha.runtime import *  # noqa: F403
from datum_compute.api.compute.v1alpha.scale import *  # noqa: F403
from datum_compute.api.compute.v1alpha.workload import *  # noqa: F403
from datum_compute.api.compute.v1alpha.workload_deployment import *  # noqa: F403
