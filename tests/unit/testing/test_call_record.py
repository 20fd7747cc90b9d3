"""Calls are recorded by user, and so are denials."""

from __future__ import annotations

from datum_compute.apiserver.request.access import MASTERS, Attributes, PolicyRule, RequestUser
from datum_compute.apiserver.request.roles import Roles
from datum_compute.testing.calls import RecordedCall, RecordingAuthorizer

ROBOT = RequestUser("robot", ("system:authenticated",))
READ = Attributes("get", "cell/dfw", "example.com", "widgets", "status", "default", "one")
LISTED = RecordedCall("robot", "cell", "example.com", "widgets/status", "get")


def _record(*, permissive: bool = False) -> RecordingAuthorizer:
    return RecordingAuthorizer(Roles(), permissive)


def test_a_call_is_recorded_by_type_of_plane_allowed_or_not() -> None:
    record = _record()
    assert isinstance(record.inner, Roles)
    record.inner.grant("robot", "cell", [PolicyRule("example.com", "widgets/status", ("get",))])

    assert record.allows(ROBOT, READ)
    assert record.calls == {LISTED}
    assert record.denied == set()


def test_a_denial_is_recorded_and_enforced_unless_the_record_is_permissive() -> None:
    strict, permissive = _record(), _record(permissive=True)

    assert not strict.allows(ROBOT, READ)
    assert permissive.allows(ROBOT, READ)
    assert strict.denied == permissive.denied == {LISTED}


def test_paths_are_recorded_only_when_denied() -> None:
    record = _record()
    record.allows(ROBOT, Attributes("get", "root", path="/apis"))
    record.allows(ROBOT, Attributes("get", "root", path="/metrics"))

    assert record.calls == set()
    assert record.denied == {RecordedCall("robot", "root", "", "/metrics", "get")}


def test_administrators_are_not_recorded() -> None:
    record = _record()

    assert record.allows(RequestUser("admin", (MASTERS,)), READ)
    assert record.calls == set()
