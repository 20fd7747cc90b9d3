"""Credentials of registries out of Secrets of type ``kubernetes.io/dockerconfigjson``. Pure.

Which entry serves which image is as the kubelet decides it: the host may have ``*`` in its labels,
a port must be the same, and a path of the entry is one that the image's begins with. Entries with
longer names are tried first.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from datum_compute.providers.data import data_rejected

_HUB = ("index.docker.io", "registry-1.docker.io")
"""Names under which entries for docker.io are known."""


def pull_credentials(full_reference: str, secrets: Iterable[tuple[str, bytes]]) -> tuple[str, ...]:
    """The values of ``X-Registry-Auth`` to try for an image, in order; ``secrets`` are their
    descriptions and contents. Raises ``Rejected`` for content that is no such configuration."""
    found: list[tuple[str, str]] = []
    for description, content in secrets:
        for name, entry in _entries(description, content):
            if _matches(name, full_reference):
                found.append((_location(name), _header(description, name, entry)))
    found.sort(key=lambda each: each[0], reverse=True)
    return tuple(dict.fromkeys(header for _, header in found))


def _entries(description: str, content: bytes) -> list[tuple[str, dict[str, Any]]]:
    try:
        entries = json.loads(content)["auths"].items()
        return [(name, entry) for name, entry in entries if isinstance(entry, dict)]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise data_rejected(
            f'{description} is not a configuration of docker: expected {{"auths": …}}'
        ) from None


def _matches(name: str, image: str) -> bool:
    host, _, path = _location(name).partition("/")
    image_host, _, image_path = image.partition("/")
    hosts = {image_host, *(_HUB if image_host == "docker.io" else ())}
    if not any(_host_matches(host, each) for each in hosts):
        return False
    return image_path.startswith(path)


def _host_matches(pattern: str, host: str) -> bool:
    (pattern, _, port), (host, _, wanted_port) = pattern.partition(":"), host.partition(":")
    labels, wanted = pattern.split("."), host.split(".")
    return (
        port == wanted_port
        and len(labels) == len(wanted)
        and all(fnmatchcase(one, label) for label, one in zip(labels, wanted, strict=True))
    )


def _location(name: str) -> str:
    """Host and path of an entry, which may be written as the URL of a registry's API."""
    bare = name.partition("://")[2] or name
    host, _, path = bare.partition("/")
    path = path.strip("/")
    return f"{host}/{path}" if path and path not in ("v1", "v2") else host


def _header(description: str, name: str, entry: dict[str, Any]) -> str:
    user, password = entry.get("username"), entry.get("password")
    if entry.get("auth"):
        try:
            decoded = base64.b64decode(str(entry["auth"]).strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise data_rejected(f"{description} has no valid auth for {name}") from None
        user, colon, password = decoded.partition(":")
        if not colon:
            raise data_rejected(
                f"{description} has no valid auth for {name}: expected USER:PASSWORD"
            )
    body = {
        "username": str(user or ""),
        "password": str(password or ""),
        "serveraddress": _location(name).partition("/")[0],
    }
    return base64.urlsafe_b64encode(json.dumps(body).encode()).decode()
