"""What our managers asked API servers for, by their audit logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:masters", "system:unauthenticated"]},
        {"level": "Metadata"},
    ],
}
OURS = ("compute-", "system:serviceaccount:compute-system:")
"""How the names of our users begin."""


class Right(NamedTuple):
    """On a plane; a subresource is part of the resource."""

    plane: str
    user: str
    group: str
    resource: str
    verb: str


class AuditedCall(NamedTuple):
    right: Right
    code: int
    path: str


def read_calls(log: Path, plane: str) -> Iterator[AuditedCall]:
    """Those of our users."""
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        user, about = entry["user"].get("username", ""), entry.get("objectRef", {})
        if user.startswith(OURS):
            resource = "/".join(filter(None, map(about.get, ("resource", "subresource"))))
            right = Right(plane, user, about.get("apiGroup", ""), resource, entry["verb"])
            code = entry.get("responseStatus", {}).get("code", 0)
            yield AuditedCall(right, code, entry["requestURI"])
