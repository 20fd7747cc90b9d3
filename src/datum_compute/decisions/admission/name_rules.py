"""Validation of names, and the messages of its errors."""

from __future__ import annotations

import re

from datum_compute.api import name_patterns
from datum_compute.api.name_patterns import LABEL_LIMIT, PORT_NAME_LIMIT, SUBDOMAIN_LIMIT
from datum_compute.decisions.findings import FieldValue, Findings

_is_label = re.compile(name_patterns.DNS_LABEL).fullmatch
_is_subdomain = re.compile(name_patterns.DNS_SUBDOMAIN).fullmatch
_is_qualified = re.compile(name_patterns.QUALIFIED_NAME).fullmatch
_is_port_name = re.compile(name_patterns.PORT_NAME).fullmatch

DNS_LABEL_MESSAGE = (
    "must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends"
)
SUBDOMAIN = (
    "must be the name of an object: lower-case letters, digits, '-' and '.',"
    " with a letter or digit at both ends of each part"
)
PORT_NAME = (
    "must be the name of a port: lower-case letters, digits and single '-' between them,"
    " with at least one letter"
)
QUALIFIED = (
    "must be letters, digits, '-', '_' and '.', with a letter or digit at both ends,"
    " after an optional DNS prefix and '/'"
)
LABEL_VALUE = (
    "must be empty, or letters, digits, '-', '_' and '.' with a letter or digit at both ends"
)


def is_dns_label(text: object) -> bool:
    return isinstance(text, str) and len(text) <= LABEL_LIMIT and bool(_is_label(text))


def is_label_value(text: str) -> bool:
    """Whether it is a label's value and not empty."""
    return len(text) <= LABEL_LIMIT and bool(_is_qualified(text))


def validate_dns_label(findings: Findings, place: FieldValue, detail: str = "") -> str:
    """A required DNS label; returns the text, valid or not."""
    text = findings.text(place, needed=True, detail=detail)
    if len(text) > LABEL_LIMIT:
        findings.too_long(place, LABEL_LIMIT)
    elif text and not _is_label(text):
        findings.invalid(place, DNS_LABEL_MESSAGE)
    return text


def validate_object_name(findings: Findings, place: FieldValue) -> str:
    text = findings.text(place, needed=True)
    if len(text) > SUBDOMAIN_LIMIT:
        findings.too_long(place, SUBDOMAIN_LIMIT)
    elif text and not _is_subdomain(text):
        findings.invalid(place, SUBDOMAIN)
    return text


def validate_port_name(findings: Findings, place: FieldValue) -> str:
    text = findings.text(place, needed=True)
    if len(text) > PORT_NAME_LIMIT:
        findings.too_long(place, PORT_NAME_LIMIT)
    elif text and not _is_port_name(text):
        findings.invalid(place, PORT_NAME)
    return text


def validate_generate_name(findings: Findings, place: FieldValue) -> None:
    """The prefix of a name that the server completes."""
    text = findings.text(place)
    if text and not _is_label(f"{text}x"):
        findings.invalid(place, DNS_LABEL_MESSAGE)


def validate_key(findings: Findings, place: FieldValue, key: str) -> None:
    """A key of labels or annotations, at its own entry."""
    prefix, slash, name = key.rpartition("/")
    good = (
        len(name) <= LABEL_LIMIT
        and _is_qualified(name)
        and (not slash or (len(prefix) <= SUBDOMAIN_LIMIT and _is_subdomain(prefix)))
    )
    if not good:
        findings.invalid(place, QUALIFIED, shown=key)


def validate_label_value(findings: Findings, place: FieldValue) -> None:
    text = findings.text(place)
    if len(text) > LABEL_LIMIT:
        findings.too_long(place, LABEL_LIMIT)
    elif text and not _is_qualified(text):
        findings.invalid(place, LABEL_VALUE)
