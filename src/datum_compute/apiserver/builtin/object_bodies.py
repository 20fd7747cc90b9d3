"""Built-in objects as Kubernetes' own clients write them: in protobuf.

``kubectl create namespace``, ``configmap``, ``secret`` and ``serviceaccount`` send nothing
else, and give up where it is not understood. What a server fills in (uid, times, managed
fields) is passed over.
"""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver.request import protobuf
from datum_compute.apiserver.request.protobuf import BYTES_MAP, FLAG, TEXT, TEXT_MAP, TEXTS, Message

_OWNER: Message = {
    1: ("kind", TEXT),
    3: ("name", TEXT),
    4: ("uid", TEXT),
    5: ("apiVersion", TEXT),
    6: ("controller", FLAG),
    7: ("blockOwnerDeletion", FLAG),
}
_METADATA: Message = {
    1: ("name", TEXT),
    2: ("generateName", TEXT),
    3: ("namespace", TEXT),
    5: ("uid", TEXT),
    6: ("resourceVersion", TEXT),
    11: ("labels", TEXT_MAP),
    12: ("annotations", TEXT_MAP),
    13: ("ownerReferences", [_OWNER]),
    14: ("finalizers", TEXTS),
}
_NAMED: Message = {1: ("name", TEXT)}
_REFERENCE: Message = {
    1: ("kind", TEXT),
    2: ("namespace", TEXT),
    3: ("name", TEXT),
    4: ("uid", TEXT),
    5: ("apiVersion", TEXT),
    6: ("resourceVersion", TEXT),
    7: ("fieldPath", TEXT),
}

_KINDS: dict[tuple[str, str], Message] = {
    ("v1", "Namespace"): {
        2: ("spec", {1: ("finalizers", TEXTS)}),
    },
    ("v1", "ConfigMap"): {
        2: ("data", TEXT_MAP),
        3: ("binaryData", BYTES_MAP),
        4: ("immutable", FLAG),
    },
    ("v1", "Secret"): {
        2: ("data", BYTES_MAP),
        3: ("type", TEXT),
        4: ("stringData", TEXT_MAP),
        5: ("immutable", FLAG),
    },
    ("v1", "ServiceAccount"): {
        2: ("secrets", [_REFERENCE]),
        3: ("imagePullSecrets", [_NAMED]),
        4: ("automountServiceAccountToken", FLAG),
    },
}


def decode(body: bytes) -> dict[str, Any] | None:
    """The object in the body; None for a kind that is not read in this form. Raises 400."""
    type_, message = protobuf.unwrap(body)
    kind = _KINDS.get((type_.get("apiVersion", ""), type_.get("kind", "")))
    if kind is None:
        return None
    return {**type_, **protobuf.read(message, {1: ("metadata", _METADATA), **kind})}
