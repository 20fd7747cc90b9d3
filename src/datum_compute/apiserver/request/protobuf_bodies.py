"""The bodies that Kubernetes' own clients send in protobuf only.

``kubectl create`` of built-in kinds, ``kubectl auth``, and every typed client of Go's client-go
fail where it is not accepted. All of them read answers in JSON too, so nothing is written in
protobuf. Times that the server sets, and fields that change no answer, are skipped.
"""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver.request import protobuf
from datum_compute.apiserver.request.protobuf import (
    BYTES_MAP,
    COUNT,
    FLAG,
    GIVEN_NUMBER,
    GIVEN_TEXT,
    JSON,
    MICRO_TIME,
    TEXT,
    TEXT_MAP,
    TEXTS,
    TIME,
    Message,
)

_OWNER: Message = {
    1: ("kind", TEXT),
    3: ("name", TEXT),
    4: ("uid", TEXT),
    5: ("apiVersion", TEXT),
    6: ("controller", FLAG),
    7: ("blockOwnerDeletion", FLAG),
}
_MANAGED: Message = {
    1: ("manager", TEXT),
    2: ("operation", TEXT),
    3: ("apiVersion", TEXT),
    4: ("time", TIME),
    6: ("fieldsType", TEXT),
    7: ("fieldsV1", JSON),
    8: ("subresource", TEXT),
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
    17: ("managedFields", [_MANAGED]),
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

_SOURCE: Message = {1: ("component", TEXT), 2: ("host", TEXT)}
_SERIES: Message = {1: ("count", COUNT), 2: ("lastObservedTime", MICRO_TIME)}

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
    ("v1", "Event"): {
        2: ("involvedObject", _REFERENCE),
        3: ("reason", TEXT),
        4: ("message", TEXT),
        5: ("source", _SOURCE),
        6: ("firstTimestamp", TIME),
        7: ("lastTimestamp", TIME),
        8: ("count", COUNT),
        9: ("type", TEXT),
        10: ("eventTime", MICRO_TIME),
        11: ("series", _SERIES),
        12: ("action", TEXT),
        13: ("related", _REFERENCE),
        14: ("reportingComponent", TEXT),
        15: ("reportingInstance", TEXT),
    },
    ("events.k8s.io/v1", "Event"): {
        2: ("eventTime", MICRO_TIME),
        3: ("series", _SERIES),
        4: ("reportingController", TEXT),
        5: ("reportingInstance", TEXT),
        6: ("action", TEXT),
        7: ("reason", TEXT),
        8: ("regarding", _REFERENCE),
        9: ("related", _REFERENCE),
        10: ("note", TEXT),
        11: ("type", TEXT),
        12: ("deprecatedSource", _SOURCE),
        13: ("deprecatedFirstTimestamp", TIME),
        14: ("deprecatedLastTimestamp", TIME),
        15: ("deprecatedCount", COUNT),
    },
    ("coordination.k8s.io/v1", "Lease"): {
        2: (
            "spec",
            {
                1: ("holderIdentity", GIVEN_TEXT),
                2: ("leaseDurationSeconds", GIVEN_NUMBER),
                3: ("acquireTime", MICRO_TIME),
                4: ("renewTime", MICRO_TIME),
                5: ("leaseTransitions", GIVEN_NUMBER),
                6: ("strategy", GIVEN_TEXT),
                7: ("preferredHolder", GIVEN_TEXT),
            },
        ),
    },
}

_RULE: Message = {
    1: ("verbs", TEXTS),
    2: ("apiGroups", TEXTS),
    3: ("resources", TEXTS),
    4: ("resourceNames", TEXTS),
    5: ("nonResourceURLs", TEXTS),
}
_BINDING: Message = {
    2: (
        "subjects",
        [{1: ("kind", TEXT), 2: ("apiGroup", TEXT), 3: ("name", TEXT), 4: ("namespace", TEXT)}],
    ),
    3: ("roleRef", {1: ("apiGroup", TEXT), 2: ("kind", TEXT), 3: ("name", TEXT)}),
}
for _kind, _message in (("Role", {2: ("rules", [_RULE])}), ("RoleBinding", _BINDING)):
    for _scope in ("", "Cluster"):
        _KINDS["rbac.authorization.k8s.io/v1", f"{_scope}{_kind}"] = _message
_TOKEN_REQUEST: Message = {
    2: (
        "spec",
        {
            1: ("audiences", TEXTS),
            3: ("boundObjectRef", {1: ("kind", TEXT), 2: ("apiVersion", TEXT), 3: ("name", TEXT)}),
            4: ("expirationSeconds", GIVEN_NUMBER),
        },
    )
}
_KINDS["authentication.k8s.io/v1", "TokenRequest"] = _TOKEN_REQUEST

_DELETE_OPTIONS: Message = {
    1: ("gracePeriodSeconds", GIVEN_NUMBER),
    2: ("preconditions", {1: ("uid", GIVEN_TEXT), 2: ("resourceVersion", GIVEN_TEXT)}),
    3: ("orphanDependents", FLAG),
    4: ("propagationPolicy", GIVEN_TEXT),
    5: ("dryRun", TEXTS),
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
_TOKEN: Message = {1: ("token", TEXT), 2: ("audiences", TEXTS)}

_SPECS: dict[str, Message] = {
    "selfsubjectaccessreviews": _ACCESS,
    "selfsubjectrulesreviews": _RULES,
    "subjectaccessreviews": _SUBJECT,
    "localsubjectaccessreviews": _SUBJECT,
    "tokenreviews": _TOKEN,
}


def decode_object(body: bytes) -> dict[str, Any] | None:
    """The object in the body; None for a kind that is not read in this form. Raises 400."""
    type_, message = protobuf.unwrap(body)
    if type_.get("kind") == "DeleteOptions":  # in the version of what is deleted
        return {**type_, **protobuf.read(message, _DELETE_OPTIONS)}
    kind = _KINDS.get((type_.get("apiVersion", ""), type_.get("kind", "")))
    if kind is None:
        return None
    return {**type_, **protobuf.read(message, {1: ("metadata", _METADATA), **kind})}


def decode_review(resource: str, body: bytes) -> dict[str, Any]:
    """The review in the body of a request for this resource. Raises 400."""
    _, review = protobuf.unwrap(body)
    return protobuf.read(review, {2: ("spec", _SPECS.get(resource, {}))})
