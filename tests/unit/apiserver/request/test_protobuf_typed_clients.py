"""What typed clients of Go send in protobuf: Leases, Events, delete options."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.apiserver.errors import ApiError
from datum_compute.apiserver.request import protobuf, protobuf_bodies
from tests.support.apiserver.protobuf import field, number
from tests.support.apiserver.widgets import Caller, widget_server

FORM = {"content-type": protobuf.MEDIA_TYPE, "accept": f"{protobuf.MEDIA_TYPE},application/json"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CORE_EVENTS = "/api/v1/namespaces/default/events"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def envelope(version: str, kind: str, *message: bytes) -> bytes:
    return (
        protobuf.MAGIC
        + field(1, field(1, version) + field(2, kind))
        + field(2, b"".join(message))
        + field(3, "")
        + field(4, "")
    )


def whole(at: int, value: int) -> bytes:
    return number(at << 3) + number(value % 2**64)


def moment(at: int, seconds: int, nanos: int = 0) -> bytes:
    return field(at, whole(1, seconds) + whole(2, nanos))


def named(name: str) -> bytes:
    return field(1, field(1, name) + field(8, ""))


def lease(*spec: bytes) -> bytes:
    return envelope("coordination.k8s.io/v1", "Lease", named("lock"), field(2, b"".join(spec)))


def test_a_lease_keeps_zero_and_empty_where_they_are_given() -> None:
    body = lease(field(1, ""), whole(2, 15), moment(4, 1_700_000_000, 123_456_789), whole(5, 0))

    assert protobuf_bodies.decode_object(body) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lock"},
        "spec": {
            "holderIdentity": "",
            "leaseDurationSeconds": 15,
            "renewTime": "2023-11-14T22:13:20.123456Z",
            "leaseTransitions": 0,
        },
    }


def test_an_event_leaves_out_what_go_writes_for_nothing() -> None:
    about = field(2, field(1, "Widget") + field(2, "default") + field(3, "w") + field(4, ""))
    body = envelope(
        "v1",
        "Event",
        named("e"),
        about,
        field(3, "Started"),
        field(5, field(1, "c")),
        moment(6, -1),
        field(7, ""),
        whole(8, 0),
        field(10, ""),
    )

    assert protobuf_bodies.decode_object(body) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Widget", "namespace": "default", "name": "w"},
        "reason": "Started",
        "source": {"component": "c"},
        "firstTimestamp": "1969-12-31T23:59:59Z",
    }


def test_managed_fields_are_read() -> None:
    entry = field(1, "m") + field(2, "Update") + field(6, "FieldsV1")
    entry += field(7, field(1, '{"f:data":{}}'))
    body = envelope("v1", "ConfigMap", field(1, field(1, "c") + field(17, entry)))

    found = protobuf_bodies.decode_object(body)

    assert found is not None
    assert found["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}},
        }
    ]


@pytest.mark.parametrize(
    "body",
    [
        lease(moment(4, 2**62)),
        lease(moment(4, 0, 2**62)),
        lease(field(2, "not a number")),
        lease(whole(1, 7)),
        envelope("v1", "ConfigMap", field(1, field(17, field(7, field(1, "{"))))),
    ],
)
def test_an_impossible_value_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        protobuf_bodies.decode_object(body)

    assert refused.value.code == 400


async def test_a_leader_election_runs_in_protobuf() -> None:
    async with widget_server() as caller:
        first = lease(field(1, "one"), whole(2, 15), moment(4, 1_700_000_000), whole(5, 0))
        code, made = await caller.call("POST", LEASES, first, headers=FORM)
        assert code == 201, made
        version = field(6, made["metadata"]["resourceVersion"])
        renewed = envelope(
            "coordination.k8s.io/v1",
            "Lease",
            field(1, field(1, "lock") + version),
            field(2, field(1, "two") + whole(2, 15) + moment(4, 1_700_000_002) + whole(5, 1)),
        )

        code, found = await caller.call("PUT", f"{LEASES}/lock", renewed, headers=FORM)

        assert code == 200, found
        assert found["spec"]["holderIdentity"] == "two"
        stale, _ = await caller.call("PUT", f"{LEASES}/lock", renewed, headers=FORM)
        assert stale == 409


async def _secret(caller: Caller) -> str:
    path = "/api/v1/namespaces/default/secrets"
    code, made = await caller.call("POST", path, {"metadata": {"name": "key"}})
    assert code == 201, made
    return f"{path}/key"


async def test_delete_options_are_read_in_protobuf() -> None:
    async with widget_server() as caller:
        path = await _secret(caller)

        def options(*message: bytes) -> bytes:
            return envelope("v1", "DeleteOptions", *message)

        wrong = options(field(2, field(1, "another")))
        assert (await caller.call("DELETE", path, wrong, headers=FORM))[0] == 409
        dry = options(field(5, "All"))
        assert (await caller.call("DELETE", path, dry, headers=FORM))[0] == 200
        assert (await caller.call("GET", path))[0] == 200
        policy = options(whole(1, 0), field(4, "Background"))
        assert (await caller.call("DELETE", path, policy, headers=FORM))[0] == 200
        assert (await caller.call("GET", path))[0] == 404


def _event(**fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Widget", "name": "w", "namespace": "default"},
        "note": "it started",
        "reason": "Started",
        "type": "Normal",
        "reportingController": "c",
        "reportingInstance": "c-1",
        "action": "Start",
        "eventTime": "2020-01-01T00:00:00.000000Z",
        **fields,
    }


async def test_both_groups_show_the_same_events_by_their_own_names() -> None:
    async with widget_server() as caller:
        code, made = await caller.call("POST", EVENTS, _event())
        assert code == 201, made

        _, core = await caller.call("GET", f"{CORE_EVENTS}/e")

        assert core["apiVersion"] == "v1"
        assert (core["involvedObject"]["name"], core["message"]) == ("w", "it started")
        assert (core["reportingComponent"], core["action"]) == ("c", "Start")
        assert not core.keys() & {"regarding", "note", "reportingController"}
        _, shown = await caller.call("GET", f"{EVENTS}/e")
        assert shown == made
        merge = {"content-type": "application/merge-patch+json"}
        series = {"count": 2, "lastObservedTime": "2020-01-01T00:00:01.000000Z"}
        _, patched = await caller.call("PATCH", f"{EVENTS}/e", {"series": series}, headers=merge)
        assert patched["series"] == series
        change = {"message": "again"}
        await caller.call("PATCH", f"{CORE_EVENTS}/e", change, headers=merge)
        _, shown = await caller.call("GET", f"{EVENTS}/e")
        assert (shown["note"], shown["series"]) == ("again", series)
        _, gone = await caller.call("DELETE", f"{EVENTS}/e")
        assert gone["details"]["group"] == "events.k8s.io"
        assert (await caller.call("GET", f"{CORE_EVENTS}/e"))[0] == 404


async def test_the_renamed_events_are_selected_listed_and_watched() -> None:
    async with widget_server() as caller:
        await caller.call("POST", EVENTS, _event())
        for name, count in (("w", 1), ("other", 0)):
            query = {"fieldSelector": f"regarding.name={name},reportingController=c"}
            _, found = await caller.call("GET", EVENTS, query=query)
            assert len(found["items"]) == count
        table = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        _, shown = await caller.call("GET", EVENTS, headers=table)
        _, core = await caller.call("GET", CORE_EVENTS, headers=table)
        assert shown["rows"] == core["rows"]
        assert shown["rows"][0]["cells"][3] == "widget/w"
        watched = await caller.send("GET", EVENTS, query={"watch": "true"})
        assert watched.stream is not None
        first = await anext(aiter(watched.stream))
        assert b'"apiVersion":"events.k8s.io/v1"' in first
        assert b'"note":"it started"' in first
        code, refused = await caller.call("GET", EVENTS, query={"fieldSelector": "source=c"})
        assert (code, refused["message"]) == (400, "field label not supported: source")
