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
    version: str = "v1"
    """Of the table or the metadata."""


PLAIN = Form()

_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
_PARAMETER = re.compile(r";\s*(as|g|v|q)=([^;,\s]+)")
_LISTS = ("list", "deletecollection")
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


def check_form(form: Form, verb: str) -> None:
    """Raise 406 where the metadata of a list is asked for as that of one object, or the other way
    round."""
    if form.transform == "PartialObjectMetadata" and verb in _LISTS:
        raise errors.cannot_be_shown(form.transform, "is a list")
    if form.transform == "PartialObjectMetadataList" and verb not in (*_LISTS, "watch"):
        raise errors.cannot_be_shown(form.transform, "is not a list")


def _negotiate(accept: str) -> Form | None:
    clauses = [clause.strip().partition(";") for clause in accept.split(",")]
    asked = [(media, dict(_PARAMETER.findall(f";{rest}"))) for media, _, rest in clauses]
    for media, parameters in sorted(asked, key=_quality, reverse=True):
        if media in (JSON_TYPE, "application/*", "*/*"):
            wanted = parameters.get("as")
            if wanted is None:
                return PLAIN
            version = parameters.get("v", "")
            if (
                wanted in _TRANSFORMS
                and version in ("v1", "v1beta1")
                and parameters.get("g") == "meta.k8s.io"
            ):
                return Form(wanted, version=version)
        elif media == YAML_TYPE:
            return Form(yaml=True)
    return None


def _quality(clause: tuple[str, dict[str, str]]) -> float:
    try:
        return float(clause[1].get("q", "1"))
    except ValueError:
        return 0.0
