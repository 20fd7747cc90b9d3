"""The engines' own words, and what each means."""

from __future__ import annotations

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.container import failures
from datum_compute.providers.container.engine import EngineRefused
from datum_compute.providers.errors import InsufficientCapacity, NotReady, Rejected

REFUSED = [
    (
        500,
        'runc: runc create failed: unable to start container process: exec: "/nope": stat /nope:'
        " no such file or directory: OCI runtime attempted to invoke a command that was not found",
        compute.REASON_CONFIGURATION_ERROR,
        "its command cannot be run: /nope: stat /nope: no such file or directory",
    ),
    (
        400,
        'failed to create shim: OCI runtime create failed: exec: "/etc/passwd": permission denied:'
        " unknown",
        compute.REASON_CONFIGURATION_ERROR,
        "its command cannot be run: /etc/passwd: permission denied",
    ),
    (
        500,
        "unable to find user nobody7: no matching entries in passwd file",
        compute.REASON_CONFIGURATION_ERROR,
        "no matching entries in passwd file",
    ),
    (404, "No such image: a:1", compute.REASON_IMAGE_UNAVAILABLE, "No such image: a:1"),
]


@pytest.mark.parametrize(("status", "text", "reason", "words"), REFUSED)
def test_a_fault_of_the_instance_is_named(status: int, text: str, reason: str, words: str) -> None:
    found = failures.explain_refusal(EngineRefused(status, text), "app")

    assert isinstance(found, Rejected)
    assert found.reason == reason
    assert words in found.message
    assert "OCI" not in found.message


def test_a_size_that_the_machine_lacks_is_a_matter_of_capacity() -> None:
    text = "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available"

    assert isinstance(
        failures.explain_refusal(EngineRefused(400, text), "app"), InsufficientCapacity
    )


@pytest.mark.parametrize(
    "text",
    [
        "error setting rlimit type 6: operation not permitted: OCI permission denied",
        "something that no version has said yet",
    ],
)
def test_a_fault_of_the_host_is_retried_and_not_blamed_on_the_instance(text: str) -> None:
    assert isinstance(failures.explain_refusal(EngineRefused(500, text), "app"), NotReady)


def test_a_taken_address_is_known_in_the_words_of_both_engines() -> None:
    for text in (
        "cannot listen on the TCP port: listen tcp4 127.64.0.2:80: bind: address already in use",
        "Bind for 127.64.0.2:80 failed: port is already allocated",
        "requested ip address 10.128.0.2 is already allocated to container ID 1",
    ):
        assert failures.is_address_taken(EngineRefused(500, text))
    assert not failures.is_address_taken(EngineRefused(500, "no such container"))


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (500, "IPAM error: requested ip address 10.128.0.3 is already allocated to 48fd", True),
        (403, "Address already in use", True),
        (500, "listen tcp4 127.64.0.2:80: bind: address already in use", False),
        (500, "Bind for 127.64.0.2:80 failed: port is already allocated", False),
    ],
)
def test_a_taken_address_is_one_of_the_network_or_one_of_the_host(
    status: int, text: str, expected: bool
) -> None:
    assert failures.is_network_address_taken(EngineRefused(status, text)) is expected


def test_a_container_that_docker_never_starts_is_known_by_its_words() -> None:
    for text in (f"task {'0123456789abcdef' * 4}: already exists", "id already in use"):
        assert failures.is_never_started(EngineRefused(500, text))
    for text in ("network web already exists", "Bind for 127.64.0.1:80: address already in use"):
        assert not failures.is_never_started(EngineRefused(500, text))
