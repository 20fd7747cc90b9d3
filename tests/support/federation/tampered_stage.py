"""A federation whose every field has a known writer, to tamper with what our processes wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Transport
from datum_compute.testing.expectations import eventually
from tests.support.client.intercepted_transport import InterceptedTransport, Rule
from tests.support.federation.stage import Stage, stage
from tests.support.objects import message
from tests.support.simulation.platform import apply
from tests.support.simulation.random_operations import DesiredWorkload
from tests.support.simulation.settled import unsettled
from tests.support.simulation.tampered_fields import (
    Left,
    Path,
    Place,
    Tamperer,
    Tampering,
    WrittenFields,
)
from tests.support.simulation.writers import signed_by

WEB = DesiredWorkload("web", "acme/web:1", 1, ("DFW",))
INSTANCE = "web-default-dfw-0"
OURS = ("compute-", "provider-")
"""Prefixes of the names of our processes."""

QUIET_SECONDS = 60.0
DEFAULTS_OF_KARMADA = ("spec.preemption", "spec.priority", "spec.schedulerName")


@asynccontextmanager
async def tampered_stage(*bugs: Rule) -> AsyncIterator[tuple[Stage, WrittenFields]]:
    """A settled federation and the writers of its fields. ``bugs`` treat the requests of our
    processes."""
    written = WrittenFields()

    def signed(transport: Transport, process: str, plane: str) -> Transport:
        planted = bugs if process.startswith(OURS) else ()
        return InterceptedTransport(transport, [signed_by(process), *planted])

    async with stage(cities=("DFW",), commit_checker=written, wrap=signed) as on:
        await apply(on, WEB.to_create())
        await eventually("deployed", partial(unsettled, on, {"web": WEB}))
        await asyncio.sleep(QUIET_SECONDS)
        yield on, written


async def owned_fields() -> dict[Place, tuple[list[Path], bool]]:
    """The fields that our processes write in a federation of one Workload, by object, and whether
    they created the object."""
    async with tampered_stage() as (_, written):
        return {
            place: (paths, written.creators[place].startswith(OURS))
            for place, paths in written.owned_by(OURS).items()
        }


def deliberately_left(
    client: Callable[[str], Client], place: Place, change: Tampering
) -> Left | None:
    """What our processes do not put back, and why."""
    title, plural = ".".join(change.path), place.resource.plural
    if plural == "namespaces" and title.startswith("status"):
        return Left("the API server sets the phase of a namespace")
    if plural == "propagationpolicies" and title in DEFAULTS_OF_KARMADA:
        return Left("an administrator may choose what Karmada's admission sets by default")
    last, copied = change.path[-1:], plural == "instances" and not place.plane.startswith("cell/")
    if last == ("lastTransitionTime",) and not copied:
        return Left("only a condition itself records its time")
    if last == ("observedGeneration",) and plural == "instances" and not copied:
        return Left("a condition of an Instance may be of an older generation")
    if plural == "resourceclaims" and title.startswith("status"):
        return Left("Milo writes the status of a claim, after a default of the server")
    another = f"other metadata.labels.{compute.LABEL_SOURCE_CLUSTER}"
    if plural == "resourceclaims" and change.title == another:
        return Left("the claim says that it is another's", partial(_unreported_claim, client))
    return None


async def _unreported_claim(client: Callable[[str], Client]) -> str:
    """The grant of the Instance stays, and its message names the claim."""
    [found] = (await client("cell/dfw").list(compute.INSTANCES)).items
    text = message(found, compute.CONDITION_QUOTA_GRANTED)
    return "" if "belongs to" in text else text


def tamperer(on: Stage) -> Tamperer:
    settled = partial(unsettled, on, {"web": WEB})
    return Tamperer(on.client, settled, partial(deliberately_left, on.client))
