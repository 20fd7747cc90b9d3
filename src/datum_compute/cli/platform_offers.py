"""What only some platforms offer: the logs of instances, and commands in them.

An API server of Kubernetes cannot serve them for a custom resource. There an instance is a Pod in
its cell, which kubectl reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api.compute.constants import LABEL_SOURCE_CLUSTER
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import OtherProgram
from datum_compute.client import errors


def not_offered(
    error: errors.StatusError, what: str, instance: Mapping[str, Any], kubectl: Sequence[str]
) -> CommandError:
    """The error for an instance of a platform that does not offer this."""
    name = str(instance["metadata"]["name"])
    if isinstance(error, errors.ServerError):
        message, way = error.detail, None
    else:
        cell = (instance["metadata"].get("labels") or {}).get(LABEL_SOURCE_CLUSTER) or "CELL"
        message = f"this platform offers no {what} of instances; its Pod in cell {cell} has them"
        words = ("kubectl", "--context", str(cell), "-n", "NAMESPACE", *kubectl, name)
        way = OtherProgram(words)
    return CommandError(message, way, exit_code=Exit.UNAVAILABLE, code="NotOffered")
