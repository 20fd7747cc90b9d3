"""The kit every provider passes: what a cell expects of whatever runs its Instances.

Each check is a function of a :class:`ConformanceCell`, which the provider's own tests set up: a
cell in which the provider runs. Checks use the cell's API alone, so they hold for any provider,
and compare states, never calls. A provider's test module runs them all::

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.title)
    async def test_conformance(check): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.providers.protocol import LogSource

STEP_SECONDS = 0.25
FOREIGN_FINALIZER = "conformance.compute.datumapis.com/hold"


class ConformanceFailure(AssertionError):
    """The provider breaks the contract; the message names the rule."""


@dataclass(frozen=True, slots=True)
class ConformanceCell:
    """A cell in which one provider runs."""

    client: Client
    provider: str
    """Its name, from which its finalizer follows."""
    restart: Callable[[], Awaitable[None]]
    """Stop the provider and start a fresh one on the same cell."""
    namespace: str = "default"
    image: str = "registry.example/app:1"
    failure_annotations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each failure reason the provider can produce on demand, the annotations for it."""
    timeout_seconds: float = 60.0
    """Seconds within which an Instance must be Available, or deleted."""
    settle_seconds: float = 5.0
    """Seconds to wait where nothing must happen."""
    logs: Callable[[], LogSource] | None = None
    """The logs of a provider that has them; its image prints something."""

    @property
    def finalizer(self) -> str:
        return compute.provider_finalizer(self.provider)


Check = Callable[[ConformanceCell], Awaitable[None]]


async def a_gated_instance_is_left_alone(cell: ConformanceCell) -> None:
    await create(cell, "gated-0", gates=[compute.GATE_QUOTA])
    await asyncio.sleep(cell.settle_seconds)
    found = await read(cell, "gated-0")

    _expect(cell.finalizer not in found.metadata.finalizers, "finalizer on a gated Instance")
    _expect(_status(found, compute.CONDITION_PROGRAMMED) == conditions.UNKNOWN, "Programmed set")


async def the_last_gate_starts_it(cell: ConformanceCell) -> None:
    await create(cell, "started-0", gates=[compute.GATE_NETWORK, compute.GATE_QUOTA])
    await _set_gates(cell, "started-0", [compute.GATE_QUOTA])
    await asyncio.sleep(cell.settle_seconds)
    held = await read(cell, "started-0")
    await _set_gates(cell, "started-0", [])

    _expect(cell.finalizer not in held.metadata.finalizers, "started behind a gate")
    await wait_available(cell, "started-0")


async def a_running_instance_reports_both_conditions_and_its_template(
    cell: ConformanceCell,
) -> None:
    await create(cell, "running-0", template_hash="abc123")
    found = await wait_available(cell, "running-0")

    _expect(cell.finalizer in found.metadata.finalizers, "running without a finalizer")
    _expect(_status(found, compute.CONDITION_PROGRAMMED) == conditions.TRUE, "not Programmed")
    observed = found.view(compute.Instance).observed_template_hash
    _expect(observed == "abc123", f"observedTemplateHash is {observed!r}")


async def ready_and_the_conditions_of_others_are_not_touched(cell: ConformanceCell) -> None:
    await create(cell, "others-0", gates=[compute.GATE_QUOTA])
    ours = conditions.with_condition(
        (await read(cell, "others-0")).view(compute.Instance).status.conditions,
        compute.CONDITION_QUOTA_GRANTED,
        conditions.TRUE,
        compute.REASON_QUOTA_AVAILABLE,
        "granted",
        now=conditions.EPOCH,
    )
    body = {"status": {"conditions": conditions.to_wire(ours)}}
    await cell.client.patch(
        compute.INSTANCES, "others-0", merge(body), cell.namespace, subresource="status"
    )
    await _set_gates(cell, "others-0", [])
    found = await wait_available(cell, "others-0")

    _expect(_status(found, compute.CONDITION_READY) == conditions.UNKNOWN, "Ready was written")
    granted = _status(found, compute.CONDITION_QUOTA_GRANTED)
    _expect(granted == conditions.TRUE, f"QuotaGranted became {granted}")


async def nothing_is_written_while_nothing_changes(cell: ConformanceCell) -> None:
    await create(cell, "idle-0")
    before = await wait_available(cell, "idle-0")
    await asyncio.sleep(cell.settle_seconds)
    after = await read(cell, "idle-0")

    same = before.metadata.resource_version == after.metadata.resource_version
    _expect(same, "an idle Instance was written")


async def a_restart_of_the_provider_disturbs_nothing(cell: ConformanceCell) -> None:
    await create(cell, "kept-0")
    before = await wait_available(cell, "kept-0")
    await cell.restart()
    await asyncio.sleep(cell.settle_seconds)
    after = await read(cell, "kept-0")

    _expect(bytes(before.status) == bytes(after.status), "status changed over a restart")


async def a_deletion_releases_only_the_finalizer_of_the_provider(
    cell: ConformanceCell,
) -> None:
    await create(cell, "deleted-0", finalizers=[FOREIGN_FINALIZER])
    await wait_available(cell, "deleted-0")
    await cell.client.delete(compute.INSTANCES, "deleted-0", cell.namespace)

    async def released() -> bool:
        return cell.finalizer not in (await read(cell, "deleted-0")).metadata.finalizers

    await wait(cell, released, "the provider's finalizer stays")
    left = await read(cell, "deleted-0")
    _expect(FOREIGN_FINALIZER in left.metadata.finalizers, "a foreign finalizer was released")
    body: Mapping[str, Any] = {"metadata": {"finalizers": []}}
    await cell.client.patch(compute.INSTANCES, "deleted-0", merge(body), cell.namespace)
    await wait_deleted(cell, "deleted-0")


async def an_instance_deleted_while_gated_is_released(cell: ConformanceCell) -> None:
    await create(cell, "unborn-0", gates=[compute.GATE_QUOTA])
    await cell.client.delete(compute.INSTANCES, "unborn-0", cell.namespace)

    await wait_deleted(cell, "unborn-0")


async def an_instance_deleted_while_the_provider_is_down_is_released(cell: ConformanceCell) -> None:
    await create(cell, "down-0")
    await wait_available(cell, "down-0")
    await asyncio.gather(
        cell.restart(),
        cell.client.delete(compute.INSTANCES, "down-0", cell.namespace),
    )

    await wait_deleted(cell, "down-0")


async def a_successor_of_the_same_name_runs_its_own_template(cell: ConformanceCell) -> None:
    await create(cell, "reused-0", template_hash="first")
    await wait_available(cell, "reused-0")
    await cell.client.delete(compute.INSTANCES, "reused-0", cell.namespace)
    await wait_deleted(cell, "reused-0")
    await create(cell, "reused-0", template_hash="second")
    found = await wait_available(cell, "reused-0")

    _expect(found.view(compute.Instance).observed_template_hash == "second", "old template runs")


async def a_failure_is_reported_with_a_declared_reason(cell: ConformanceCell) -> None:
    for number, (reason, how) in enumerate(sorted(cell.failure_annotations.items())):
        name = f"broken-{number}"
        _expect(
            reason in compute.PROVIDER_FAILURES,
            f"{reason} is not among {', '.join(compute.PROVIDER_FAILURES)}",
        )
        await create(cell, name, template_hash="tried", annotations=how)
        await _wait_failure(cell, name, reason)
        observed = (await read(cell, name)).view(compute.Instance).observed_template_hash
        _expect(observed == "tried", f"observedTemplateHash of a failed one is {observed!r}")


async def missing_configuration_is_reported(cell: ConformanceCell) -> None:
    body = build_instance(cell, "needy-0")
    body["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "tls-keys"}}]
    await cell.client.create(compute.INSTANCES, body, cell.namespace)
    await _wait_failure(cell, "needy-0", compute.REASON_CONFIGURATION_ERROR)
    found = (await read(cell, "needy-0")).view(compute.Instance).status.conditions
    available = conditions.find(found, compute.CONDITION_AVAILABLE)

    message = available.message if available else ""
    _expect('Secret "tls-keys"' in message, f"what is missing is not named: {message!r}")


async def instance_logs_can_be_read(cell: ConformanceCell) -> None:
    if cell.logs is None:
        return
    source = cell.logs()
    await create(cell, "printing-0")
    uid = (await wait_available(cell, "printing-0")).metadata.uid

    async def printed() -> bool:
        return bool([line async for line in source.lines(uid)])

    await wait(cell, printed, "it prints nothing")
    lines = [line async for line in source.lines(uid)]
    times = [line.at for line in lines]
    _expect(times == sorted(times), "lines are not in the order of their times")
    _expect(all(at.tzinfo is not None for at in times), "a line's time has no zone")
    _expect(not any("\n" in line.text for line in lines), "a line has more than one")
    for tail in (0, 1):
        found = [line async for line in source.lines(uid, tail=tail)]
        _expect(len(found) == tail, f"tail={tail} gives {len(found)} lines")
    later = [line async for line in source.lines(uid, since=times[-1] + timedelta(days=1))]
    _expect(not later, "lines from before since")
    others = [line async for line in source.lines("no-such-uid")]
    _expect(not others, "lines of an Instance that does not exist")


async def followed_logs_end_with_the_instance(cell: ConformanceCell) -> None:
    if cell.logs is None:
        return
    await create(cell, "followed-0", gates=[compute.GATE_QUOTA])
    uid = (await read(cell, "followed-0")).metadata.uid
    lines = cell.logs().lines(uid, follow=True)

    async def live() -> None:
        await _set_gates(cell, "followed-0", [])
        await wait_available(cell, "followed-0")
        await cell.client.delete(compute.INSTANCES, "followed-0", cell.namespace)
        await wait_deleted(cell, "followed-0")

    living = asyncio.create_task(live())
    try:
        async with asyncio.timeout(2 * cell.timeout_seconds):
            found = [line async for line in lines]
    except TimeoutError:
        raise ConformanceFailure("followed lines do not end with the Instance") from None
    finally:
        await living
    _expect(bool(found), "no lines of an Instance that was followed before it started")


CHECKS: Sequence[Check] = (
    a_gated_instance_is_left_alone,
    the_last_gate_starts_it,
    a_running_instance_reports_both_conditions_and_its_template,
    ready_and_the_conditions_of_others_are_not_touched,
    nothing_is_written_while_nothing_changes,
    a_restart_of_the_provider_disturbs_nothing,
    a_deletion_releases_only_the_finalizer_of_the_provider,
    an_instance_deleted_while_gated_is_released,
    an_instance_deleted_while_the_provider_is_down_is_released,
    a_successor_of_the_same_name_runs_its_own_template,
    a_failure_is_reported_with_a_declared_reason,
    missing_configuration_is_reported,
    instance_logs_can_be_read,
    followed_logs_end_with_the_instance,
)


def title(check: Check) -> str:
    """For test ids."""
    return getattr(check, "__name__", repr(check))


def build_instance(
    cell: ConformanceCell,
    name: str,
    *,
    gates: Sequence[str] = (),
    template_hash: str = "hash",
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "apiVersion": compute.INSTANCES.api_version,
        "kind": compute.INSTANCES.kind,
        "metadata": {
            "name": name,
            "namespace": cell.namespace,
            "annotations": dict(annotations or {}),
            "finalizers": list(finalizers),
        },
        "spec": {
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {"containers": [{"name": "app", "image": cell.image}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "controller": {
                "templateHash": template_hash,
                "schedulingGates": [{"name": gate} for gate in gates],
            },
        },
    }


async def create(cell: ConformanceCell, name: str, **details: Any) -> Object:
    body = build_instance(cell, name, **details)
    return await cell.client.create(compute.INSTANCES, body, cell.namespace)


async def read(cell: ConformanceCell, name: str) -> Object:
    return await cell.client.get(compute.INSTANCES, name, cell.namespace)


async def wait_available(cell: ConformanceCell, name: str) -> Object:
    async def available() -> bool:
        return _status(await read(cell, name), compute.CONDITION_AVAILABLE) == conditions.TRUE

    await wait(cell, available, f"{name} is not Available")
    return await read(cell, name)


async def wait_deleted(cell: ConformanceCell, name: str) -> None:
    async def deleted() -> bool:
        try:
            await read(cell, name)
        except errors.NotFound:
            return True
        return False

    await wait(cell, deleted, f"{name} is not deleted")


async def wait(cell: ConformanceCell, holds: Callable[[], Awaitable[bool]], missing: str) -> None:
    deadline = asyncio.get_running_loop().time() + cell.timeout_seconds
    while not await holds():
        _expect(asyncio.get_running_loop().time() < deadline, missing)
        await asyncio.sleep(STEP_SECONDS)


async def _wait_failure(cell: ConformanceCell, name: str, reason: str) -> None:
    async def failed() -> bool:
        found = (await read(cell, name)).view(compute.Instance).status.conditions
        available = conditions.find(found, compute.CONDITION_AVAILABLE)
        return available is not None and (available.status, available.reason) == (
            conditions.FALSE,
            reason,
        )

    await wait(cell, failed, f"{name} does not report {reason}")


async def _set_gates(cell: ConformanceCell, name: str, gates: Sequence[str]) -> None:
    body = {"spec": {"controller": {"schedulingGates": [{"name": gate} for gate in gates]}}}
    await cell.client.patch(compute.INSTANCES, name, merge(body), cell.namespace)


def _status(obj: Object, kind: str) -> str:
    found = conditions.find(obj.view(compute.Instance).status.conditions, kind)
    return found.status if found else ""


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConformanceFailure(otherwise)
