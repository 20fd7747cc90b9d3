"""Values of ``format`` that are checked; any other is only documentation, as upstream."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Final
from urllib.parse import urlsplit

INT_RANGES: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

_DATE = re.compile(r"\d\d\d\d-\d\d-\d\d", re.ASCII).fullmatch
_DATE_TIME = re.compile(
    r"\d\d\d\d-(?:0[1-9]|1[0-2])-[0-3]\d[tT]"
    r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[zZ]|[+-]\d\d:\d\d)",
    re.ASCII,
).fullmatch
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}").fullmatch
_MAC = re.compile(r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}").fullmatch
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?").fullmatch
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+").fullmatch
# A Go duration; upstream also takes spelled-out units, which are not in use.
_DURATION = re.compile(r"-?(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d|w)\s*)+|0").fullmatch


def _is_date(text: str) -> bool:
    return _DATE(text) is not None and _is_in_calendar(text)


def is_date_time(text: str) -> bool:
    return _DATE_TIME(text) is not None and ("00" < text[8:10] < "29" or _is_in_calendar(text))


def _is_in_calendar(text: str) -> bool:
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return False
    return True


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _is_cidr(text: str) -> bool:
    return "/" in text and _parses(lambda t: ipaddress.ip_network(t, strict=False))(text)


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


STRING_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": _is_base64,
    "cidr": _is_cidr,
    "date": _is_date,
    "date-time": is_date_time,
    "datetime": is_date_time,
    "duration": lambda text: bool(_DURATION(text)),
    "email": lambda text: bool(_EMAIL(text)),
    "hostname": lambda text: len(text) < 255 and bool(_HOSTNAME(text)),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "mac": lambda text: bool(_MAC(text)),
    "uri": _is_uri,
    "uuid": lambda text: bool(_UUID(text)),
}
