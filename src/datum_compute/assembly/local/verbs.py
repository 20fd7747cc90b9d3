"""``/local/v1/…``: what only a local platform offers, outside every plane.

::

    GET   status
    POST  cells/<cell>/disconnect    disconnect a cell from hub, root and projects
    POST  cells/<cell>/connect       reconnect it
    GET   users                      every user's roles, by project
    POST  users                      {"name", "project", "role"}: give a user a role
    DELETE users/<user>              remove a user
    POST  console                    a one-time link to the console, for the caller's own rights

The verbs are idempotent. The token of a user is in the answer that creates it, and never again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from datum_compute.assembly.local.partitions import Partitions
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.assembly.local.users import LocalUsers, UserRefused
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.env import Environment

STATUS = "/local/v1/status"
_CELL = re.compile(r"/local/v1/cells/([^/]+)/(disconnect|connect)")
USERS = "/local/v1/users"
CONSOLE = "/local/v1/console"
JSON = {"content-type": "application/json"}
_REASONS = {404: "NotFound", 422: "Invalid"}


class _NewUser(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    project: str
    role: str


def _answer(status: int, value: Any) -> HttpResponse:
    return HttpResponse(status, JSON, msgspec.json.encode(value))


def _refusal(status: int, message: str, name: str = "") -> HttpResponse:
    refusal = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    about = {"reason": _REASONS[status], "message": message, "details": {"name": name}}
    return _answer(status, {**refusal, **about})


def _not_found() -> HttpResponse:
    return HttpResponse(404, {"content-type": "text/plain"}, b"404 page not found\n")


class LocalVerbs:
    """The handler of these paths; the API server authenticates first."""

    def __init__(
        self,
        env: Environment,
        settings: LocalSettings,
        planes: Callable[[], list[str]],
        partitions: Partitions,
        users: LocalUsers,
        console: Callable[[], Handler | None] = lambda: None,
        urls: Callable[[], list[str]] = list,
    ) -> None:
        """``console`` makes links to the console; it has none before the platform is ready, nor
        where none is served. ``urls`` are those that the router serves."""
        self._env = env
        self._settings = settings
        self._partitions = partitions
        self._planes = planes
        self._users = users
        self._console = console
        self._urls = urls
        self._started: datetime = env.now()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.path == STATUS and request.method == "GET":
            return _answer(200, self._status())
        cell = _CELL.fullmatch(request.path)
        if cell is not None and request.method == "POST":
            return self._move(cell[1], cell[2])
        if request.path == USERS or request.path.startswith(f"{USERS}/"):
            return self._handle_users(request)
        console = self._console()
        if request.path == CONSOLE and request.method == "POST" and console is not None:
            return await console(request)
        return _not_found()

    def _handle_users(self, request: HttpRequest) -> HttpResponse:
        if request.path == USERS and request.method == "GET":
            return _answer(200, {"users": self._users.all()})
        if request.path == USERS and request.method == "POST":
            try:
                wanted = msgspec.json.decode(request.body, type=_NewUser)
                token = self._users.add(wanted.name, wanted.project, wanted.role)
            except (msgspec.MsgspecError, UserRefused) as error:
                return _refusal(422, str(error))
            return _answer(201, {"name": wanted.name, "token": token})
        if request.method == "DELETE":
            name = request.path.removeprefix(f"{USERS}/")
            if self._users.remove(name):
                return _answer(200, {"name": name})
            return _refusal(404, f'user "{name}" does not exist', name)
        return _not_found()

    def _move(self, cell: str, verb: str) -> HttpResponse:
        if cell not in self._settings.cells:
            known = ", ".join(self._settings.cells)
            return _refusal(404, f'cell "{cell}" does not exist; expected one of {known}', cell)
        if verb == "disconnect":
            self._partitions.disconnect(cell)
        else:
            self._partitions.connect(cell)
        return _answer(200, self._status())

    def _status(self) -> dict[str, Any]:
        return {
            "runtime": self._settings.runtime,
            "cities": list(self._settings.cities),
            "disconnected": [cell.upper() for cell in self._partitions.cells],
            "project": self._settings.project,
            "urls": self._urls(),
            "planes": self._planes(),
            "uptimeSeconds": int((self._env.now() - self._started).total_seconds()),
        }
