"""``/local/v1/…``: what only a local platform offers, outside every plane.

::

    GET   status
    POST  cells/<cell>/disconnect    disconnect a cell from hub, root and projects
    POST cells/<cell>/connect       reconnect it

The verbs are idempotent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from datum_compute.assembly.local.partitions import Partitions
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.env import Environment

STATUS = "/local/v1/status"
_CELL = re.compile(r"/local/v1/cells/([^/]+)/(disconnect|connect)")
JSON = {"content-type": "application/json"}


class LocalVerbs:
    """The handler of these paths; the API server authenticates first."""

    def __init__(
        self,
        env: Environment,
        settings: LocalSettings,
        planes: Callable[[], list[str]],
        partitions: Partitions,
    ) -> None:
        self._env = env
        self._settings = settings
        self._partitions = partitions
        self._planes = planes
        self._started: datetime = env.now()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.path == STATUS and request.method == "GET":
            return HttpResponse(200, JSON, msgspec.json.encode(self._status()))
        cell = _CELL.fullmatch(request.path)
        if cell is not None and request.method == "POST":
            return self._move(cell[1], cell[2])
        return HttpResponse(404, {"content-type": "text/plain"}, b"404 page not found\n")

    def _move(self, cell: str, verb: str) -> HttpResponse:
        if cell not in self._settings.cells:
            known = ", ".join(self._settings.cells)
            message = f'cell "{cell}" does not exist; expected one of {known}'
            refusal = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
            return HttpResponse(404, JSON, msgspec.json.encode({**refusal, "message": message}))
        if verb == "disconnect":
            self._partitions.disconnect(cell)
        else:
            self._partitions.connect(cell)
        return HttpResponse(200, JSON, msgspec.json.encode(self._status()))

    def _status(self) -> dict[str, Any]:
        return {
            "runtime": self._settings.runtime,
            "cities": list(self._settings.cities),
            "disconnected": [cell.upper() for cell in self._partitions.cells],
            "project": self._settings.project,
            "planes": self._planes(),
            "uptimeSeconds": int((self._env.now() - self._started).total_seconds()),
        }
