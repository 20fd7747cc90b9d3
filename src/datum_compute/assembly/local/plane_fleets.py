"""The planes of a local platform as fleets, each as one process sees it."""

from __future__ import annotations

from typing import Protocol

from datum_compute.api.planes import CELL, HUB, PROJECT, ROOT
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.fleets.projects import ProjectFleet
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet

CENTRE = ""
"""The place of a process that runs in no cell."""


class ClientFactory(Protocol):
    def __call__(self, plane: str, user: str, *, process: str, at: str) -> Client: ...


class PlaneFleets:
    """``user`` is the identity of the process, ``at`` the cell it runs in, ``platform`` marks what
    belongs to this platform on a machine it shares with others."""

    def __init__(
        self,
        client: ClientFactory,
        settings: LocalSettings,
        env: Environment,
        user: str,
        *,
        process: str = "",
        at: str = CENTRE,
        platform: str = "",
    ) -> None:
        self.platform = platform
        self.settings = settings
        self.env = env
        self._client = client
        self._user = user
        self._process = process or user
        self._at = at

    def root(self) -> SingleFleet:
        return SingleFleet("root", "root", self._plane_client(ROOT.plane()), self.env)

    def hub(self) -> SingleFleet:
        return SingleFleet("hub", HUB.name, self._plane_client(HUB.plane()), self.env)

    def projects(self) -> ProjectFleet:
        root_client = self._plane_client(ROOT.plane())
        return ProjectFleet("projects", root_client, self.project_client, self.env)

    def project_client(self, project: str) -> Client:
        return self._plane_client(PROJECT.plane(project))

    def cells(self) -> StaticFleet:
        """All cells, from where the process runs."""
        clients = {cell: self._plane_client(CELL.plane(cell)) for cell in self.settings.cells}
        return StaticFleet("cells", clients, self.env)

    def cells_from_within(self) -> StaticFleet:
        """All cells, for a process that runs in each of them: no partition separates them."""
        clients = {
            cell: self._client(CELL.plane(cell), self._user, process=self._process, at=cell)
            for cell in self.settings.cells
        }
        return StaticFleet("cells", clients, self.env)

    def own_cell(self) -> SingleFleet:
        """The cell the process runs in."""
        return SingleFleet("cell", "single", self._plane_client(CELL.plane(self._at)), self.env)

    def _plane_client(self, plane: str) -> Client:
        return self._client(plane, self._user, process=self._process, at=self._at)
