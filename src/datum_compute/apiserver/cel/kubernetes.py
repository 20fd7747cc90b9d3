"""Functions that Kubernetes adds: URLs, addresses, quantities and named formats."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from datum_compute.api import name_patterns, quantities
from datum_compute.apiserver.cel.functions import checked, define, define_member
from datum_compute.apiserver.cel.values import (
    CIDR,
    CelError,
    IPAddress,
    NamedFormat,
    Optional,
    Quantity,
    Url,
)
from datum_compute.apiserver.schema.formats import STRING_FORMATS


def _succeeds(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            parse(text)
        except CelError:
            return False
        return True

    return run


# URLs, absolute or with an absolute path.


def _url(text: str) -> Url:
    failed = f"URL parse error during conversion from string: parse {text!r}: invalid URI"
    try:
        parts = urlsplit(text)
        hostname, port = parts.hostname or "", parts.port
    except ValueError:
        raise CelError(failed) from None
    if not re.fullmatch(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|/)[^\x00-\x20\x7f]*", text):
        raise CelError(failed)
    _, _, host = parts.netloc.rpartition("@")
    shown = "" if port is None else str(port)
    return Url(parts.scheme, host, hostname, shown, parts.path, parts.query)


define("url", "string -> kubernetes.URL", _url)
define("isURL", "string -> bool", _succeeds(_url))
for _name, _field in (
    ("getScheme", "scheme"),
    ("getHost", "host"),
    ("getHostname", "hostname"),
    ("getPort", "port"),
    ("getEscapedPath", "path"),
):
    define_member(_name, "kubernetes.URL -> string", lambda url, field=_field: getattr(url, field))
define_member(
    "getQuery",
    "kubernetes.URL -> map(string,list(string))",
    lambda url: parse_qs(url.query, keep_blank_values=True),
)

# Addresses.


def _ip(text: str) -> IPAddress:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(
            f'IP Address "{text}" parse error during conversion from string: unable to parse IP'
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise CelError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _cidr(text: str) -> CIDR:
    failed = f"network address parse error during conversion from string: {text}"
    address, _, bits = text.partition("/")
    if not re.fullmatch(r"0|[1-9]\d{0,2}", bits):
        raise CelError(failed)
    _ip(address)
    try:
        return ipaddress.ip_interface(text)
    except ValueError:
        raise CelError(failed) from None


def _has_ip(cidr: CIDR, address: IPAddress | str) -> bool:
    return (_ip(address) if isinstance(address, str) else address) in cidr.network


def _has_cidr(cidr: CIDR, inner: CIDR | str) -> bool:
    other = _cidr(inner) if isinstance(inner, str) else inner
    network, within = cidr.network, other.network
    return network.version == within.version and within.subnet_of(network)  # type: ignore[arg-type]


def _is_global(address: IPAddress) -> bool:
    is_broadcast = int(address) == 2**32 - 1 and address.version == 4
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or is_broadcast
    )


define("ip", "string -> net.IP", _ip)
define("isIP", "string -> bool", _succeeds(_ip))
define("ip.isCanonical", "string -> bool", lambda text: str(_ip(text)) == text)
define("cidr", "string -> net.CIDR", _cidr)
define("isCIDR", "string -> bool", _succeeds(_cidr))
_ADDRESS: tuple[tuple[str, Callable[[IPAddress], bool]], ...] = (
    ("isUnspecified", lambda ip: ip.is_unspecified),
    ("isLoopback", lambda ip: ip.is_loopback),
    ("isLinkLocalMulticast", lambda ip: ip in _LOCAL_MULTICAST[ip.version]),
    ("isLinkLocalUnicast", lambda ip: ip.is_link_local),
    ("isGlobalUnicast", _is_global),
)
_LOCAL_MULTICAST: dict[int, Any] = {
    4: ipaddress.ip_network("224.0.0.0/24"),
    6: ipaddress.ip_network("ff02::/16"),
}
define_member("family", "net.IP -> int", lambda ip: ip.version)
for _name, _test in _ADDRESS:
    define_member(_name, "net.IP -> bool", _test)
for _type in ("string", "net.IP"):
    define_member("containsIP", f"net.CIDR {_type} -> bool", _has_ip)
for _type in ("string", "net.CIDR"):
    define_member("containsCIDR", f"net.CIDR {_type} -> bool", _has_cidr)
define_member("ip", "net.CIDR -> net.IP", lambda cidr: cidr.ip)
define_member("prefixLength", "net.CIDR -> int", lambda cidr: cidr.network.prefixlen)
define_member(
    "masked", "net.CIDR -> net.CIDR", lambda cidr: ipaddress.ip_interface(str(cidr.network))
)

# Quantities.


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(quantities.parse(text))
    except quantities.QuantityError:
        rule = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise CelError(f"quantities must match the regular expression '{rule}'") from None


def _whole(quantity: Quantity) -> int:
    if quantity.amount != quantity.amount.to_integral_value():
        raise CelError("cannot convert value to integer")
    return checked(int(quantity.amount))


def _amount(value: Quantity | int) -> Decimal:
    return value.amount if isinstance(value, Quantity) else Decimal(value)


_Q = "kubernetes.Quantity"
define("quantity", f"string -> {_Q}", _quantity)
define("isQuantity", "string -> bool", _succeeds(_quantity))
define_member("isInteger", f"{_Q} -> bool", _succeeds(_whole))  # type: ignore[arg-type]
define_member("asInteger", f"{_Q} -> int", _whole)
define_member("asApproximateFloat", f"{_Q} -> double", lambda q: float(q.amount))
define("sign", f"{_Q} -> int", lambda q: (q.amount > 0) - (q.amount < 0))
define_member("isGreaterThan", f"{_Q} {_Q} -> bool", lambda a, b: a.amount > b.amount)
define_member("isLessThan", f"{_Q} {_Q} -> bool", lambda a, b: a.amount < b.amount)
define_member(
    "compareTo", f"{_Q} {_Q} -> int", lambda a, b: (a.amount > b.amount) - (a.amount < b.amount)
)
for _type in (_Q, "int"):
    define_member("add", f"{_Q} {_type} -> {_Q}", lambda a, b: Quantity(a.amount + _amount(b)))
    define_member("sub", f"{_Q} {_type} -> {_Q}", lambda a, b: Quantity(a.amount - _amount(b)))

# Named formats.

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


def _shaped(expression: str, longest: int, *, prefix: bool = False) -> Callable[[str], list[str]]:
    full = re.compile(expression, re.ASCII).fullmatch

    def validate(text: str) -> list[str]:
        found = []
        if len(text) > longest:
            found.append(f"must be no more than {longest} bytes")
        # A prefix may end where the rest would go on.
        shown = text[:-1] + "a" if prefix and text.endswith("-") else text
        if not full(shown):
            found.append(f"regex used for validation is '{expression}'")
        return found

    return validate


def _qualified(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    found = _shaped(_QUALIFIED, 63)(name)
    return found + (_shaped(name_patterns.DNS_SUBDOMAIN, 253)(prefix) if slash else [])


def _of_schema(form: str, why: str) -> Callable[[str], list[str]]:
    return lambda text: [] if STRING_FORMATS[form](text) else [why]


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": _shaped(_LABEL, 63),
    "dns1123LabelPrefix": _shaped(_LABEL, 63, prefix=True),
    "dns1123Subdomain": _shaped(name_patterns.DNS_SUBDOMAIN, 253),
    "dns1123SubdomainPrefix": _shaped(name_patterns.DNS_SUBDOMAIN, 253, prefix=True),
    "dns1035Label": _shaped("[a-z]([-a-z0-9]*[a-z0-9])?", 63),
    "dns1035LabelPrefix": _shaped("[a-z]([-a-z0-9]*[a-z0-9])?", 63, prefix=True),
    "qualifiedName": _qualified,
    "labelValue": _shaped(f"({_QUALIFIED})?", 63),
    "uri": lambda text: [] if _succeeds(_url)(text) else ["invalid URI for request"],
    "uuid": _of_schema("uuid", "does not match the UUID format"),
    "byte": _of_schema("byte", "invalid base64"),
    "date": _of_schema("date", "invalid date"),
    "datetime": _of_schema("datetime", "invalid datetime"),
}
_KNOWN = {name: NamedFormat(name, validate) for name, validate in _FORMATS.items()}
for _name, _format in _KNOWN.items():
    define(f"format.{_name}", "-> kubernetes.NamedFormat", lambda form=_format: form)


def _named(name: str) -> Optional:
    return Optional((_KNOWN[name],)) if name in _KNOWN else Optional()


def _validate(form: NamedFormat, text: str) -> Optional:
    found = form.validate(text)
    return Optional((found,)) if found else Optional()


define("format.named", "string -> optional_type(kubernetes.NamedFormat)", _named)
define_member("validate", "kubernetes.NamedFormat string -> optional_type(list(string))", _validate)
