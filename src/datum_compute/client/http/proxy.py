"""The proxy to a server, if any.

A kubeconfig's ``proxy-url`` wins; otherwise the usual variables decide: ``HTTPS_PROXY`` or
``HTTP_PROXY`` by the server's scheme, ``NO_PROXY`` for exceptions, each in upper or lower
case. Loopback addresses are never reached through a proxy of the environment.

Only ``http://`` proxies are supported. For an https server that loses nothing: the proxy
opens a tunnel (CONNECT), and TLS goes through it to the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from datum_compute.client.http import server_url

if TYPE_CHECKING:
    import ipaddress

# Most processes have no proxy, so modules that parse one are imported only for one.

Variable = Callable[[str], str | None]


def proxy_from_environment(origin: str, variable: Variable) -> str:
    """The proxy for ``origin``, or an empty string. Raises ValueError if it is not usable."""
    name = origin.partition("://")[0].lower() + "_proxy"
    value = _either(name, variable)
    if not value:
        return ""
    server = server_url.parse(origin)
    host = server.host.rstrip(".")
    if _is_this_host(host) or _is_excepted(host, server.port, _either("no_proxy", variable)):
        return ""
    try:
        return checked_proxy(value)
    except ValueError as error:
        raise ValueError(f"{name.upper()}: {error}") from error


def checked_proxy(url: str) -> str:
    """The proxy's URL with its scheme. Raises ValueError if it is not usable."""
    if "://" not in url:
        url = f"http://{url}"
    try:
        proxy = server_url.parse(url)
    except ValueError:
        proxy = None
    if proxy is None or not proxy.host:
        raise ValueError("the proxy is not a URL: expected http://HOST[:PORT]")
    if proxy.scheme != "http":
        raise ValueError(f"{proxy.scheme!r} proxies are not supported: expected http://HOST[:PORT]")
    return url.rstrip("/")


def proxy_authorization(url: str) -> dict[str, str]:
    """The header for a proxy whose URL has a user and password."""
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    if not parts.username:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"proxy-authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _either(name: str, variable: Variable) -> str:
    return (variable(name.upper()) or variable(name) or "").strip()


def _is_this_host(host: str) -> bool:
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    return any(
        _matches(host, port, entry.strip().lower())
        for entry in exceptions.split(",")
        if entry.strip()
    )


def _matches(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        import ipaddress

        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    entry, entry_port = _split_port(entry)
    if entry_port and entry_port != str(port):
        return False
    excepted = _address(entry)
    if excepted is not None or address is not None:
        return excepted == address
    if entry.startswith("*."):
        entry = entry[1:]
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith(f".{entry}")


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        inner, _, rest = entry[1:].partition("]")
        return inner, rest.removeprefix(":")
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port
    return entry, ""  # a name, or an IPv6 address without brackets


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    import ipaddress

    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
