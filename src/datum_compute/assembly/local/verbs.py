"""``/local/v1/…``: what only a local platform can tell, outside every plane."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.transport import Request, Response
from datum_compute.env import Environment

STATUS = "/local/v1/status"
JSON = {"content-type": "application/json"}


class LocalVerbs:
    """The handler the API server hands these paths to, after it knows who asks."""

    def __init__(
        self, env: Environment, settings: LocalSettings, planes: Callable[[], list[str]]
    ) -> None:
        self._env = env
        self._settings = settings
        self._planes = planes
        self._started: datetime = env.now()

    async def handle(self, request: Request) -> Response:
        if request.path == STATUS and request.method == "GET":
            return Response(200, JSON, msgspec.json.encode(self._status()))
        return Response(404, {"content-type": "text/plain"}, b"404 page not found\n")

    def _status(self) -> dict[str, Any]:
        return {
            "runtime": "simulated",
            "cities": list(self._settings.cities),
            "project": self._settings.project,
            "planes": self._planes(),
            "uptimeSeconds": int((self._env.now() - self._started).total_seconds()),
        }
