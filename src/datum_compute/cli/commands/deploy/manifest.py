"""A workload as flags describe it.

Flags build a new workload, or change the parts of an existing one they mention and no
others; a trailing ``-`` removes. The container is ``app`` and the placement ``default``.
"""

from __future__ import annotations

import copy
from typing import Any

from datum_compute.api.compute.instance_types import INSTANCE_TYPE_D1_STANDARD_2
from datum_compute.cli.commands.deploy.flags import Flags, change
from datum_compute.cli.errors import usage
from datum_compute.cli.explain.suggestions import AddFlag
from datum_compute.cli.tables import WORKLOADS

API_VERSION = WORKLOADS.api_version
CONTAINER = "app"
PLACEMENT = "default"

Workload = dict[str, Any]


def new_workload(name: str, flags: Flags) -> Workload:
    if not flags.image:
        raise usage(
            f'workload "{name}" does not exist yet, so it needs an image',
            AddFlag("--image", "IMAGE"),
        )
    if not flags.cities:
        raise usage(
            f'workload "{name}" does not exist yet, so it needs a city',
            AddFlag("--city", "DFW,LHR"),
        )
    workload: Workload = {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": INSTANCE_TYPE_D1_STANDARD_2},
                        "sandbox": {"containers": [{"name": CONTAINER, "image": flags.image}]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }
            },
            "placements": [
                {
                    "name": PLACEMENT,
                    "cityCodes": [],
                    "scaleSettings": {"minReplicas": 1},
                }
            ],
        },
    }
    return changed_workload(workload, flags)


def changed_workload(workload: Workload, flags: Flags) -> Workload:
    """A copy of ``workload`` with what the flags mention changed, and nothing else."""
    changed = copy.deepcopy(workload)
    change(changed, flags)
    return changed
