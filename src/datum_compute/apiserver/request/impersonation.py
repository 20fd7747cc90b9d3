"""A request in the name of another user: the headers ``Impersonate-User``, ``-Group``, ``-Uid`` and
``-Extra-KEY``. Each needs the right ``impersonate``, on the plane of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

from datum_compute.apiserver import errors
from datum_compute.apiserver.request import access
from datum_compute.apiserver.request.access import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    Attributes,
    RequestUser,
)

PREFIX = "impersonate-"
SEPARATOR = "\n"
"""Between the values of a header that was given more than once; no value contains it."""
_NAMED = f"\n{PREFIX}"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


def is_asked(headers: Mapping[str, str]) -> bool:
    return _NAMED in "\n".join(("", *headers))  # in one step: every request is asked


def acting_user(
    headers: Mapping[str, str],
    user: RequestUser,
    plane: str,
    allows: Callable[[RequestUser, Attributes], bool],
) -> RequestUser:
    """The user in whose name the request is made; the given one without the headers. Raises 403
    where that is not allowed, and 400 for groups, a uid or extras without a user."""
    if not is_asked(headers):
        return user
    name = headers.get("impersonate-user", "")
    groups = _values(headers, "impersonate-group")
    uid = headers.get("impersonate-uid", "")
    extra = {
        unquote(key.removeprefix(_EXTRA)): _values(headers, key)
        for key in headers
        if key.startswith(_EXTRA)
    }
    for asked in _asked(plane, name, groups, uid, extra):
        if not allows(user, asked):
            raise access.forbidden(user, asked)
    if not name:
        raise errors.bad_request("groups, a uid or extras are impersonated without a user")
    account = access.split_service_account(name)
    if account is not None and not groups:
        groups = access.service_account_groups(account[0])
    own = UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED
    if not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups = (*groups, own)
    return RequestUser(name, groups, uid, tuple(sorted(extra.items())))


def _asked(
    plane: str, name: str, groups: tuple[str, ...], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> Iterator[Attributes]:
    account = access.split_service_account(name)
    if account is not None:
        yield Attributes("impersonate", plane, "", "serviceaccounts", "", *account)
    elif name:
        yield Attributes("impersonate", plane, "", "users", name=name)
    for group in groups:
        yield Attributes("impersonate", plane, "", "groups", name=group)
    if uid:
        yield Attributes("impersonate", plane, _AUTHENTICATION, "uids", name=uid)
    for key, values in extra.items():
        for value in values:
            yield Attributes("impersonate", plane, _AUTHENTICATION, "userextras", key, name=value)


def _values(headers: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(headers[name].split(SEPARATOR)) if name in headers else ()
