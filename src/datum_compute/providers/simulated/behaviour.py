"""How a simulated Instance behaves, by the annotations of its template.

All times count from the moment it was programmed, except ``start-seconds``, which is how
long programming takes. A crash is final: a crashed Instance keeps crashing until it is
replaced. One that sleeps stays available, and goes on sleeping: no connection ever reaches it.
So ``sleep-after`` of a workload counts from the same moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions import sleep
from datum_compute.providers import protocol
from datum_compute.providers.errors import Rejected
from datum_compute.providers.protocol import Addresses, InstanceReport, failed

START_SECONDS = "simulated.compute.datumapis.com/start-seconds"
FAIL = "simulated.compute.datumapis.com/fail"
CRASH_AFTER_SECONDS = "simulated.compute.datumapis.com/crash-after-seconds"
SLEEP_AFTER_SECONDS = "simulated.compute.datumapis.com/sleep-after-seconds"

FAILURES = tuple(sorted(compute.PROVIDER_FAILURES))

CRASHING = failed(
    compute.REASON_INSTANCE_CRASHING, f"the simulated process ended, as {CRASH_AFTER_SECONDS} asks"
)


@dataclass(frozen=True, slots=True)
class Behaviour:
    start_seconds: float = 0.0
    fail: str = ""
    crash_after: float = math.inf
    sleep_after: float = math.inf


def parse_behaviour(annotations: Mapping[str, str]) -> Behaviour:
    """Raises ``Rejected`` with reason ConfigurationError for an invalid annotation."""
    fail = annotations.get(FAIL, "")
    if fail and fail not in FAILURES:
        allowed = ", ".join(f'"{reason}"' for reason in FAILURES)
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            f'annotation {FAIL}: Unsupported value: "{fail}": supported values: {allowed}',
        )
    policy = sleep.find_policy(annotations)
    idle = policy.after_seconds if policy is not None else math.inf
    return Behaviour(
        start_seconds=_seconds(annotations, START_SECONDS, 0.0),
        fail=fail,
        crash_after=_seconds(annotations, CRASH_AFTER_SECONDS, math.inf),
        sleep_after=min(idle, _seconds(annotations, SLEEP_AFTER_SECONDS, math.inf)),
    )


def decide_report(
    behaviour: Behaviour, age: float, interfaces: tuple[Addresses, ...]
) -> InstanceReport:
    """The state of an Instance ``age`` seconds after it is programmed; before, it is negative."""
    if behaviour.fail:
        raise Rejected(behaviour.fail, f"the simulated Instance fails, as {FAIL} asks")
    if age < 0:
        return InstanceReport(protocol.PROGRAMMING, protocol.PROVISIONING, requeue_after=-age)
    if age >= behaviour.crash_after:
        return InstanceReport(protocol.PROGRAMMED, CRASHING, interfaces)
    asleep = age >= behaviour.sleep_after
    sleeps = behaviour.sleep_after < math.inf
    ahead = [
        moment
        for moment in (behaviour.crash_after, behaviour.sleep_after)
        if age < moment < math.inf
    ]
    return InstanceReport(
        protocol.PROGRAMMED,
        protocol.AVAILABLE_ASLEEP if asleep else protocol.AVAILABLE,
        interfaces,
        requeue_after=min(ahead) - age if ahead else None,
        asleep=(protocol.ASLEEP if asleep else protocol.AWAKE) if sleeps else None,
    )


def _seconds(annotations: Mapping[str, str], key: str, default: float) -> float:
    text = annotations.get(key)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            f'annotation {key}: Invalid value: "{text}": must be a number of seconds, 0 or more',
        )
    return seconds
