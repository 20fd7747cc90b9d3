"""Checks what plane a manager is on, before it writes there.

A kubeconfig of another plane looks like any other, and controllers that write to it do harm that
stays: cell controllers on a project put finalizers on its deployments that nothing removes. So
each client of a plane has a :class:`PlaneCheck` of the role that the plane has for the manager,
and its transport sends no write before the check has passed. A new client, as a fleet makes for
each cluster it engages, is checked anew.

Two things show what a plane is: the API groups it serves, and the marks on its deployments. Only
what is found counts against a plane. Where the Karmada groups of a hub are missing, they may still
be installed: writes wait, and the manager does not end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import discovery, errors
from datum_compute.client.protocol import Client
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport
from datum_compute.log import get_logger
from datum_compute.runtime.leadership import is_effect

logger = get_logger(__name__)

KARMADA = karmada.PROPAGATION_POLICIES.group
MILO = quota.RESOURCE_CLAIMS.group
_SERVED_BY = {KARMADA: "a Karmada hub does", MILO: "root and project planes of Milo do"}

SAMPLE = 100
"""Deployments whose marks are looked at. A guess: each one of a plane has the same marks, except
in its first moments."""


class WrongPlane(Exception):
    """The plane is another one than the manager needs; the message says what was found."""


@dataclass(frozen=True, slots=True)
class PlaneRole:
    """What a plane is to a manager, and what shows that it is another one."""

    name: str
    foreign_groups: Sequence[str] = ()
    needed_group: str = ""
    foreign_mark: Callable[[Object], str] | None = None
    """What a deployment has that those of this plane never have; empty for nothing."""


def _federated(deployment: Object) -> str:
    if compute.FINALIZER_FEDERATOR in deployment.metadata.finalizers:
        return f"has the finalizer {compute.FINALIZER_FEDERATOR}, as in a project plane"
    return ""


def _propagated(deployment: Object) -> str:
    if karmada.LABEL_MANAGED in deployment.metadata.labels:
        return f"has the label {karmada.LABEL_MANAGED}, as in a cell"
    return ""


def _federated_or_propagated(deployment: Object) -> str:
    return _federated(deployment) or _propagated(deployment)


CELL = PlaneRole("a cell", (KARMADA, MILO), foreign_mark=_federated)
SINGLE_CLUSTER = PlaneRole(
    "a single cluster", (KARMADA, MILO), foreign_mark=_federated_or_propagated
)
PROJECT = PlaneRole("a project plane", (KARMADA,), foreign_mark=_propagated)
CLAIMS = PlaneRole("a project plane", (KARMADA,))
"""A project in which a cell only claims quota."""
HUB = PlaneRole("a Karmada hub", (MILO,), needed_group=KARMADA)


class PlaneCheck:
    """``where`` is the flag or field that names the plane."""

    def __init__(self, where: str, role: PlaneRole, client: Client) -> None:
        self.where = where
        self.passed = False
        self.fault = ""
        """Why it has not passed, after an answer; empty before, and while the plane is
        unreachable."""
        self._role = role
        self._client = client
        self._one_at_a_time = asyncio.Lock()

    async def verify(self) -> None:
        """Returns when the check has passed. Raises :class:`WrongPlane` for another plane, and
        :class:`~datum_compute.client.errors.ClientError` where that is not known yet."""
        async with self._one_at_a_time:
            if self.passed:
                return
            try:
                await self._verify()
            except (WrongPlane, errors.StatusError) as error:
                self._report(str(error))
                raise
            self.passed = True
            self.fault = ""

    async def _verify(self) -> None:
        role = self._role
        served = await self._groups()
        if role.needed_group and role.needed_group in served:
            return
        for group in role.foreign_groups:
            if group in served:
                raise self._wrong(f"it serves {group}, as {_SERVED_BY[group]}")
        if role.needed_group:
            raise errors.NotServed(
                404, "NotServed", f"{self.where}: it does not serve {role.needed_group}"
            )
        if role.foreign_mark is not None:
            for deployment in await self._deployments():
                if mark := role.foreign_mark(deployment):
                    name = f"{deployment.namespace}/{deployment.name}"
                    raise self._wrong(f"its WorkloadDeployment {name} {mark}")

    async def _groups(self) -> list[str]:
        try:
            return await discovery.served_groups(self._client)
        except msgspec.DecodeError as error:
            raise errors.Malformed(f"/apis is no list of API groups: {error}") from error

    async def _deployments(self) -> list[Object]:
        try:
            return (await self._client.list(compute.WORKLOAD_DEPLOYMENTS, limit=SAMPLE)).items
        except errors.NotServed:
            return []  # the kinds of compute are not installed yet

    def _wrong(self, found: str) -> WrongPlane:
        return WrongPlane(f"{self.where}: not {self._role.name}: {found}")

    def _report(self, fault: str) -> None:
        if fault != self.fault:
            logger.error("plane refused: nothing is written to it", plane=self.where, reason=fault)
        self.fault = fault


class CheckedTransport:
    """Sends reads always, and writes once the plane's check has passed."""

    def __init__(self, transport: Transport, check: PlaneCheck) -> None:
        self._transport = transport
        self._check = check

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if not self._check.passed and is_effect(request):
            try:
                await self._check.verify()
            except (WrongPlane, errors.StatusError) as error:
                return _refusal(str(error))
        return await self._transport.send(request, timeout=timeout)

    async def close(self) -> None:
        await self._transport.close()


def _refusal(message: str) -> HttpResponse:
    """As a server that refuses: callers know what to do with that."""
    status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
    body = msgspec.json.encode({**status, "message": message})
    return HttpResponse(403, {"content-type": "application/json"}, body)
