"""Tokens of service accounts: made by TokenRequest, and accepted on the plane of the account.

A token is a JSON Web Token with an HMAC, so the server keeps none. It is valid until it expires,
as long as the ServiceAccount with its uid exists.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from datum_compute.apiserver.codec import decode_json, encode_json
from datum_compute.apiserver.request import access
from datum_compute.apiserver.request.access import AUTHENTICATED, RequestUser
from datum_compute.apiserver.storage.protocol import PlaneStore, Store
from datum_compute.env import Environment

AUDIENCE = "https://kubernetes.default.svc"
"""Of tokens that this server itself accepts, and their issuer."""
SERVICE_ACCOUNTS = "serviceaccounts"
_PLANE = "compute.datumapis.com/plane"
_MAX_TOKEN = 8192


class ServiceAccountTokens:
    """Issues and checks the tokens of one server."""

    def __init__(self, env: Environment, store: Store, key: bytes) -> None:
        self._env = env
        self._store = store
        self._key = key

    def issue(
        self,
        plane: str,
        namespace: str,
        name: str,
        uid: str,
        audiences: Sequence[str],
        seconds: int,
    ) -> tuple[str, datetime]:
        """A token, and when it expires."""
        now = self._env.now()
        expires = now + timedelta(seconds=seconds)
        claims = {
            "aud": list(audiences),
            "exp": int(expires.timestamp()),
            "iat": int(now.timestamp()),
            "iss": AUDIENCE,
            "jti": self._env.new_uid(),
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": uid},
            },
            "nbf": int(now.timestamp()),
            "sub": access.service_account_name(namespace, name),
            _PLANE: plane,
        }
        head = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(claims)}"
        return f"{head}.{self._signature(head)}", expires

    def user(self, token: str, plane: str, audience: str = AUDIENCE) -> RequestUser | None:
        """The service account that a token is of; None for a token that is not valid there."""
        head, _, signature = token.rpartition(".")
        if len(token) > _MAX_TOKEN or head.count(".") != 1 or not signature.isascii():
            return None
        if not hmac.compare_digest(self._signature(head), signature):
            return None
        claims = _decoded(head.partition(".")[2])
        if claims is None or claims.get(_PLANE) != plane or audience not in claims["aud"]:
            return None
        if self._env.now() >= datetime.fromtimestamp(claims["exp"], UTC):
            return None
        bound = claims["kubernetes.io"]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        stored = self._store.planes.get(plane)
        if stored is None or not _exists(stored, namespace, account):
            return None
        return RequestUser(
            claims["sub"],
            (*access.service_account_groups(namespace), AUTHENTICATED),
            account["uid"],
            (("authentication.kubernetes.io/credential-id", (f"JTI={claims['jti']}",)),),
        )

    def _signature(self, head: str) -> str:
        return _base64(hmac.digest(self._key, head.encode(), "sha256"))


def _exists(plane: PlaneStore, namespace: str, account: dict[str, Any]) -> bool:
    row = plane.get((SERVICE_ACCOUNTS, namespace, account["name"]))
    return row is not None and row.uid == account["uid"]


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _encoded(value: dict[str, Any]) -> str:
    return _base64(encode_json(value))


def _decoded(text: str) -> dict[str, Any] | None:
    """Claims that were signed here, so that they have their shape."""
    try:
        value = decode_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None
    return value if isinstance(value, dict) else None
