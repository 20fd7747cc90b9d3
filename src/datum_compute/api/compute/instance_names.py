"""The name of an Instance: its deployment and its ordinal.

Apart from :mod:`.names`, which loads ``hashlib``, so that a command can read it quickly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from datum_compute.api.compute import constants

_ORDINAL = re.compile(r"0|[1-9][0-9]{0,8}")


def instance_name(deployment: str, ordinal: int) -> str:
    return f"{deployment}-{ordinal}"


def ordinal_of(labels: Mapping[str, str], name: str, deployment: str) -> int | None:
    """The ordinal of an Instance: by its label, else by its name."""
    return ordinal(labels.get(constants.LABEL_INSTANCE_INDEX, ""), name, deployment)


def ordinal(label: str, name: str, deployment: str) -> int | None:
    """:func:`ordinal_of` with the label's value; empty where there is none."""
    found = _parsed(label)
    prefix = f"{deployment}-"
    if found is None and name.startswith(prefix):
        return _parsed(name.removeprefix(prefix))
    return found


def deployment_of(labels: Mapping[str, str], name: str) -> str:
    """The WorkloadDeployment of an Instance: by its label, else its name without the ordinal;
    empty when it has neither."""
    labelled = labels.get(constants.LABEL_WORKLOAD_DEPLOYMENT_NAME)
    if labelled:
        return labelled
    deployment, _, ordinal = name.rpartition("-")
    return deployment if _parsed(ordinal) is not None else ""


@lru_cache(maxsize=4096)  # parsed for every Instance of a deployment in every reconcile
def _parsed(text: str) -> int | None:
    return int(text) if _ORDINAL.fullmatch(text) else None
