"""What the state of containers means: crashes, restarts, memory, time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.providers.container import states
from datum_compute.providers.container.states import ContainerState, Crashes

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)


def test_the_first_restart_is_at_once_and_later_ones_double_up_to_five_minutes() -> None:
    delays = [Crashes(count, "x").restart_delay() for count in range(1, 9)]

    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


@given(st.integers(1, 10**9))
def test_a_restart_never_waits_longer_than_five_minutes(count: int) -> None:
    assert 0 <= Crashes(count, "x").restart_delay() <= states.LONGEST_RESTART_SECONDS


def test_a_container_is_read_as_both_engines_describe_it() -> None:
    docker = {
        "State": {
            "Status": "exited",
            "ExitCode": 3,
            "OOMKilled": True,
            "StartedAt": "2026-11-17T11:59:00.123456789Z",
        }
    }
    podman = {"State": {"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"}}

    found = states.parse_state("app", docker)
    assert (found.status, found.exit_code, found.out_of_memory, found.ended) == (
        "exited",
        3,
        True,
        True,
    )
    assert found.started_at == datetime(2026, 11, 17, 11, 59, 0, 123456, UTC)
    assert states.parse_state("app", podman) == ContainerState("app", "created")


def test_the_cause_of_an_end_names_memory_only_as_surely_as_the_engine_does() -> None:
    killed = ContainerState("app", "exited", 137)
    sure = ContainerState("app", "exited", 137, out_of_memory=True)
    plain = ContainerState("app", "exited", 1)

    def described(state: ContainerState, limit_mib: int = 64, *, podman: bool = False) -> str:
        return states.describe_end(state, limit_mib * 2**20, reports_memory=not podman)

    assert described(sure) == "container app was killed, out of memory (its limit is 64 MiB)"
    assert described(killed) == "container app was killed (SIGKILL)"
    assert described(killed, podman=True) == (
        "container app was killed (SIGKILL), perhaps out of memory (its limit is 64 MiB):"
        " podman does not report the cause"
    )
    assert described(killed, 0, podman=True) == "container app was killed (SIGKILL)"
    for podman in (False, True):
        assert described(plain, podman=podman) == "container app ended with exit code 1"


def test_all_containers_are_up_only_as_long_as_the_last_started() -> None:
    found = [
        ContainerState("a", "running", started_at=NOW - timedelta(seconds=90)),
        ContainerState("b", "running", started_at=NOW - timedelta(seconds=3)),
    ]

    assert states.up_seconds(found, NOW) == 3
    assert states.up_seconds([], NOW) == 0
