"""From ``Accept`` to the form of the response."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import JSON_TYPE, YAML_TYPE


class Form(msgspec.Struct, frozen=True):
    """In which form the caller wants objects."""

    transform: str = ""
    """Empty, Table or PartialObjectMetadata(List)."""
    yaml: bool = False


PLAIN = Form()

_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
_AS = re.compile(r"as=([A-Za-z]+)")
_forms: dict[str, Form | None] = {JSON_TYPE: PLAIN, "*/*": PLAIN, "": PLAIN}


def accepted_form(headers: Mapping[str, str]) -> Form:
    """The first form in ``Accept`` that we can give. Raises 406 when there is none."""
    accept = headers.get("accept", "")
    try:
        form = _forms[accept]
    except KeyError:
        form = _negotiate(accept)
        if len(_forms) < 256:  # clients have a handful; an attacker gets no more memory
            _forms[accept] = form
    if form is None:
        raise errors.not_acceptable(f"{JSON_TYPE}, {YAML_TYPE}")
    return form


def _negotiate(accept: str) -> Form | None:
    for clause in accept.split(","):
        media, _, parameters = clause.strip().partition(";")
        if media in (JSON_TYPE, "application/*", "*/*"):
            wanted = _AS.search(parameters)
            if wanted is None:
                return PLAIN
            if wanted[1] in _TRANSFORMS:
                return Form(wanted[1])
        elif media == YAML_TYPE:
            return Form(yaml=True)
    return None
