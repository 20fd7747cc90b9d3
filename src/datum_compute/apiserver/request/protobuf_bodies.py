"""The bodies that Kubernetes' own clients send in protobuf only.

``kubectl create namespace``, ``configmap``, ``secret`` and ``serviceaccount``, and ``kubectl
auth`` for reviews, fail where it is not accepted. Fields that the server fills in (uid,
times, managed fields) or that change no answer are skipped.
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

_RESOURCE: Message = {
    1: ("namespace", TEXT),
    2: ("verb", TEXT),
    3: ("group", TEXT),
    4: ("version", TEXT),
    5: ("resource", TEXT),
    6: ("subresource", TEXT),
    7: ("name", TEXT),
}
_PATH: Message = {1: ("path", TEXT), 2: ("verb", TEXT)}
_ACCESS: Message = {
    1: ("resourceAttributes", _RESOURCE),
    2: ("nonResourceAttributes", _PATH),
}
_SUBJECT: Message = {**_ACCESS, 3: ("user", TEXT), 4: ("groups", TEXTS), 6: ("uid", TEXT)}
_RULES: Message = {1: ("namespace", TEXT)}

_SPECS: dict[str, Message] = {
    "selfsubjectaccessreviews": _ACCESS,
    "selfsubjectrulesreviews": _RULES,
    "subjectaccessreviews": _SUBJECT,
}


def decode_object(body: bytes) -> dict[str, Any] | None:
    """The object in the body; None for a kind that is not read in this form. Raises 400."""
    type_, message = protobuf.unwrap(body)
    kind = _KINDS.get((type_.get("apiVersion", ""), type_.get("kind", "")))
    if kind is None:
        return None
    return {**type_, **protobuf.read(message, {1: ("metadata", _METADATA), **kind})}


def decode_review(resource: str, body: bytes) -> dict[str, Any]:
    """The review in the body of a request for this resource. Raises 400."""
    _, review = protobuf.unwrap(body)
    return protobuf.read(review, {2: ("spec", _SPECS.get(resource, {}))})
