"""The kit every provider passes: what an Instance's cell may expect of whatever runs it.

Each check is a function of a :class:`Bench`, which the provider's own tests set up: a cell
with the provider at work in it. Checks speak to the cell's API alone, so they hold for any
provider, and look at the state of the world, never at calls. A provider's test module runs
them all::

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
    """The provider does not keep the contract; the message says where."""


@dataclass(frozen=True, slots=True)
class ConformanceCell:
    """A cell with one provider at work in it."""

    cell_client: Client
    provider: str
    """Its name, from which its finalizer follows."""
    restart: Callable[[], Awaitable[None]]
    """Stop the provider and start a fresh one on the same cell."""
    namespace: str = "default"
    image: str = "registry.example/app:1"
    broken: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each failure reason the provider can produce on demand, the annotations that do."""
    timeout_seconds: float = 60.0
    """Seconds within which an Instance is to be up or gone."""
    settle_seconds: float = 5.0
    """Seconds of watching where nothing is to happen."""
    lines: Callable[[], LogSource] | None = None
    """Who tells what Instances print, of a provider that can; its image prints something."""

    @property
    def finalizer(self) -> str:
        return compute.provider_finalizer(self.provider)


Check = Callable[[ConformanceCell], Awaitable[None]]


async def a_gated_instance_is_left_alone(bench: ConformanceCell) -> None:
    await create(bench, "gated-0", gates=[compute.GATE_QUOTA])
    await asyncio.sleep(bench.settle_seconds)
    found = await read(bench, "gated-0")

    _expect(bench.finalizer not in found.metadata.finalizers, "finalizer on a gated Instance")
    _expect(_status(found, compute.CONDITION_PROGRAMMED) == conditions.UNKNOWN, "Programmed set")


async def the_last_gate_starts_it(bench: ConformanceCell) -> None:
    await create(bench, "started-0", gates=[compute.GATE_NETWORK, compute.GATE_QUOTA])
    await _set_gates(bench, "started-0", [compute.GATE_QUOTA])
    await asyncio.sleep(bench.settle_seconds)
    held = await read(bench, "started-0")
    await _set_gates(bench, "started-0", [])

    _expect(bench.finalizer not in held.metadata.finalizers, "started behind a gate")
    await wait_available(bench, "started-0")


async def a_running_instance_reports_both_conditions_and_its_template(
    bench: ConformanceCell,
) -> None:
    await create(bench, "running-0", template_hash="abc123")
    found = await wait_available(bench, "running-0")

    _expect(bench.finalizer in found.metadata.finalizers, "running without a finalizer")
    _expect(_status(found, compute.CONDITION_PROGRAMMED) == conditions.TRUE, "not Programmed")
    observed = found.view(compute.Instance).observed_template_hash
    _expect(observed == "abc123", f"observedTemplateHash is {observed!r}")


async def ready_and_the_conditions_of_others_are_not_touched(bench: ConformanceCell) -> None:
    await create(bench, "others-0", gates=[compute.GATE_QUOTA])
    ours = conditions.with_condition(
        (await read(bench, "others-0")).view(compute.Instance).status.conditions,
        compute.CONDITION_QUOTA_GRANTED,
        conditions.TRUE,
        compute.REASON_QUOTA_AVAILABLE,
        "granted",
        now=conditions.EPOCH,
    )
    body = {"status": {"conditions": conditions.to_wire(ours)}}
    await bench.cell_client.patch(
        compute.INSTANCES, "others-0", merge(body), bench.namespace, subresource="status"
    )
    await _set_gates(bench, "others-0", [])
    found = await wait_available(bench, "others-0")

    _expect(_status(found, compute.CONDITION_READY) == conditions.UNKNOWN, "Ready was written")
    granted = _status(found, compute.CONDITION_QUOTA_GRANTED)
    _expect(granted == conditions.TRUE, f"QuotaGranted became {granted}")


async def nothing_is_written_while_nothing_changes(bench: ConformanceCell) -> None:
    await create(bench, "idle-0")
    before = await wait_available(bench, "idle-0")
    await asyncio.sleep(bench.settle_seconds)
    after = await read(bench, "idle-0")

    same = before.metadata.resource_version == after.metadata.resource_version
    _expect(same, "an idle Instance was written")


async def a_restart_of_the_provider_disturbs_nothing(bench: ConformanceCell) -> None:
    await create(bench, "kept-0")
    before = await wait_available(bench, "kept-0")
    await bench.restart()
    await asyncio.sleep(bench.settle_seconds)
    after = await read(bench, "kept-0")

    _expect(bytes(before.status) == bytes(after.status), "status changed over a restart")


async def a_deleted_instance_goes_and_only_our_finalizer_is_released(
    bench: ConformanceCell,
) -> None:
    await create(bench, "deleted-0", finalizers=[FOREIGN_FINALIZER])
    await wait_available(bench, "deleted-0")
    await bench.cell_client.delete(compute.INSTANCES, "deleted-0", bench.namespace)

    async def released() -> bool:
        return bench.finalizer not in (await read(bench, "deleted-0")).metadata.finalizers

    await wait(bench, released, "the provider's finalizer stays")
    left = await read(bench, "deleted-0")
    _expect(FOREIGN_FINALIZER in left.metadata.finalizers, "a foreign finalizer was released")
    body: Mapping[str, Any] = {"metadata": {"finalizers": []}}
    await bench.cell_client.patch(compute.INSTANCES, "deleted-0", merge(body), bench.namespace)
    await wait_gone(bench, "deleted-0")


async def an_instance_deleted_behind_a_gate_goes(bench: ConformanceCell) -> None:
    await create(bench, "unborn-0", gates=[compute.GATE_QUOTA])
    await bench.cell_client.delete(compute.INSTANCES, "unborn-0", bench.namespace)

    await wait_gone(bench, "unborn-0")


async def an_instance_deleted_while_the_provider_was_away_goes(bench: ConformanceCell) -> None:
    await create(bench, "away-0")
    await wait_available(bench, "away-0")
    await asyncio.gather(
        bench.restart(),
        bench.cell_client.delete(compute.INSTANCES, "away-0", bench.namespace),
    )

    await wait_gone(bench, "away-0")


async def a_successor_of_the_same_name_runs_its_own_template(bench: ConformanceCell) -> None:
    await create(bench, "reused-0", template_hash="first")
    await wait_available(bench, "reused-0")
    await bench.cell_client.delete(compute.INSTANCES, "reused-0", bench.namespace)
    await wait_gone(bench, "reused-0")
    await create(bench, "reused-0", template_hash="second")
    found = await wait_available(bench, "reused-0")

    _expect(found.view(compute.Instance).observed_template_hash == "second", "old template runs")


async def a_failure_is_reported_with_a_declared_reason(bench: ConformanceCell) -> None:
    for number, (reason, how) in enumerate(sorted(bench.broken.items())):
        name = f"broken-{number}"
        _expect(
            reason in compute.PROVIDER_FAILURES,
            f"{reason} is not among {', '.join(compute.PROVIDER_FAILURES)}",
        )
        await create(bench, name, template_hash="tried", annotations=how)
        await _wait_failure(bench, name, reason)
        observed = (await read(bench, name)).view(compute.Instance).observed_template_hash
        _expect(observed == "tried", f"observedTemplateHash of a failed one is {observed!r}")


async def missing_configuration_is_reported(bench: ConformanceCell) -> None:
    body = build_instance(bench, "needy-0")
    body["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "tls-keys"}}]
    await bench.cell_client.create(compute.INSTANCES, body, bench.namespace)
    await _wait_failure(bench, "needy-0", compute.REASON_CONFIGURATION_ERROR)
    found = (await read(bench, "needy-0")).view(compute.Instance).status.conditions
    available = conditions.find(found, compute.CONDITION_AVAILABLE)

    message = available.message if available else ""
    _expect('Secret "tls-keys"' in message, f"what is missing is not named: {message!r}")


async def instance_logs_can_be_read(bench: ConformanceCell) -> None:
    if bench.lines is None:
        return
    source = bench.lines()
    await create(bench, "telling-0")
    uid = (await wait_available(bench, "telling-0")).metadata.uid

    async def printed() -> bool:
        return bool([line async for line in source.lines(uid)])

    await wait(bench, printed, "it prints nothing")
    lines = [line async for line in source.lines(uid)]
    times = [line.at for line in lines]
    _expect(times == sorted(times), "lines are not in the order of their times")
    _expect(all(at.tzinfo is not None for at in times), "a line's time has no zone")
    _expect(not any("\n" in line.text for line in lines), "a line has more than one")
    for tail in (0, 1):
        found = [line async for line in source.lines(uid, tail=tail)]
        _expect(len(found) == tail, f"tail={tail} gives {len(found)} lines")
    later = [line async for line in source.lines(uid, since=times[-1] + timedelta(days=1))]
    _expect(not later, "lines from before the asked time")
    others = [line async for line in source.lines("nobody")]
    _expect(not others, "lines of an Instance that does not exist")


async def followed_logs_end_with_the_instance(bench: ConformanceCell) -> None:
    if bench.lines is None:
        return
    await create(bench, "followed-0", gates=[compute.GATE_QUOTA])
    uid = (await read(bench, "followed-0")).metadata.uid
    lines = bench.lines().lines(uid, follow=True)

    async def live() -> None:
        await _set_gates(bench, "followed-0", [])
        await wait_available(bench, "followed-0")
        await bench.cell_client.delete(compute.INSTANCES, "followed-0", bench.namespace)
        await wait_gone(bench, "followed-0")

    living = asyncio.create_task(live())
    try:
        async with asyncio.timeout(2 * bench.timeout_seconds):
            found = [line async for line in lines]
    except TimeoutError:
        raise ConformanceFailure("the lines of an Instance that is gone go on") from None
    finally:
        await living
    _expect(bool(found), "an Instance that was awaited told nothing")


CHECKS: Sequence[Check] = (
    a_gated_instance_is_left_alone,
    the_last_gate_starts_it,
    a_running_instance_reports_both_conditions_and_its_template,
    ready_and_the_conditions_of_others_are_not_touched,
    nothing_is_written_while_nothing_changes,
    a_restart_of_the_provider_disturbs_nothing,
    a_deleted_instance_goes_and_only_our_finalizer_is_released,
    an_instance_deleted_behind_a_gate_goes,
    an_instance_deleted_while_the_provider_was_away_goes,
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
    bench: ConformanceCell,
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
            "namespace": bench.namespace,
            "annotations": dict(annotations or {}),
            "finalizers": list(finalizers),
        },
        "spec": {
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {"containers": [{"name": "app", "image": bench.image}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "controller": {
                "templateHash": template_hash,
                "schedulingGates": [{"name": gate} for gate in gates],
            },
        },
    }


async def create(bench: ConformanceCell, name: str, **details: Any) -> Object:
    body = build_instance(bench, name, **details)
    return await bench.cell_client.create(compute.INSTANCES, body, bench.namespace)


async def read(bench: ConformanceCell, name: str) -> Object:
    return await bench.cell_client.get(compute.INSTANCES, name, bench.namespace)


async def wait_available(bench: ConformanceCell, name: str) -> Object:
    async def available() -> bool:
        return _status(await read(bench, name), compute.CONDITION_AVAILABLE) == conditions.TRUE

    await wait(bench, available, f"{name} is not Available")
    return await read(bench, name)


async def wait_gone(bench: ConformanceCell, name: str) -> None:
    async def gone() -> bool:
        try:
            await read(bench, name)
        except errors.NotFound:
            return True
        return False

    await wait(bench, gone, f"{name} is not gone")


async def wait(bench: ConformanceCell, holds: Callable[[], Awaitable[bool]], missing: str) -> None:
    deadline = asyncio.get_running_loop().time() + bench.timeout_seconds
    while not await holds():
        _expect(asyncio.get_running_loop().time() < deadline, missing)
        await asyncio.sleep(STEP_SECONDS)


async def _wait_failure(bench: ConformanceCell, name: str, reason: str) -> None:
    async def told() -> bool:
        found = (await read(bench, name)).view(compute.Instance).status.conditions
        available = conditions.find(found, compute.CONDITION_AVAILABLE)
        return available is not None and (available.status, available.reason) == (
            conditions.FALSE,
            reason,
        )

    await wait(bench, told, f"{name} does not say {reason}")


async def _set_gates(bench: ConformanceCell, name: str, gates: Sequence[str]) -> None:
    body = {"spec": {"controller": {"schedulingGates": [{"name": gate} for gate in gates]}}}
    await bench.cell_client.patch(compute.INSTANCES, name, merge(body), bench.namespace)


def _status(obj: Object, kind: str) -> str:
    found = conditions.find(obj.view(compute.Instance).status.conditions, kind)
    return found.status if found else ""


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConformanceFailure(otherwise)
