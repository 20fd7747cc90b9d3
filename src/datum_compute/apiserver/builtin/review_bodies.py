"""Reviews as Kubernetes' own clients write them: in protobuf.

``kubectl auth`` sends nothing else. A review has few fields; those that change no answer are
passed over.
"""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver.request import protobuf
from datum_compute.apiserver.request.protobuf import TEXT, TEXTS, Message

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


def decode(resource: str, body: bytes) -> dict[str, Any]:
    """The review in the body of a request for this resource, which says its kind. Raises
    400."""
    _, review = protobuf.unwrap(body)
    return protobuf.read(review, {2: ("spec", _SPECS.get(resource, {}))})
