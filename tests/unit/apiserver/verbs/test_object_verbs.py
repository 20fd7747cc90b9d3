"""One object from create to delete, on the wire."""

from __future__ import annotations

import asyncio
import base64

import msgspec
import pytest

from tests.support.apiserver.widgets import WIDGETS_PATH, widget, widget_server

JSON_PATCH = {"content-type": "application/json-patch+json"}
SECRETS = "/api/v1/namespaces/default/secrets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_new_object_gets_identity_defaults_and_the_status_of_its_schema() -> None:
    async with widget_server() as caller:
        made = await caller.create("one", {"color": "red"})

        assert made["spec"] == {"color": "red", "size": 1}
        assert made["status"] == {"phase": "New"}
        assert made["metadata"]["generation"] == 1
        assert made["metadata"]["creationTimestamp"].endswith("Z")
        assert made["metadata"]["namespace"] == "default"
        assert made == await caller.get("one")


async def test_status_given_to_the_main_resource_is_dropped() -> None:
    async with widget_server() as caller:
        body = {**widget("one"), "status": {"ready": True}}
        _, made = await caller.call("POST", WIDGETS_PATH, body)

        assert made["status"] == {"phase": "New"}


async def test_only_a_change_of_spec_raises_the_generation() -> None:
    async with widget_server() as caller:
        await caller.create("one")

        _, labelled = await caller.patch("one", {"metadata": {"labels": {"a": "b"}}})
        _, reported = await caller.patch("one", {"status": {"ready": True}}, "status")
        _, changed = await caller.patch("one", {"spec": {"size": 2}, "status": {"ready": False}})

        assert labelled["metadata"]["generation"] == 1
        assert reported["metadata"]["generation"] == 1
        assert changed["metadata"]["generation"] == 2
        assert changed["status"] == {"phase": "New", "ready": True}


async def test_the_status_subresource_changes_nothing_else() -> None:
    async with widget_server() as caller:
        await caller.create("one", {"size": 3})

        _, found = await caller.patch(
            "one",
            {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"ready": True}},
            "status",
        )

        assert found["spec"] == {"size": 3}
        assert "labels" not in found["metadata"]
        assert found["status"]["ready"] is True


async def test_an_update_without_effect_keeps_the_revision() -> None:
    async with widget_server() as caller:
        made = await caller.create("one", {"size": 3})

        _, same = await caller.patch("one", {"spec": {"size": 3}})
        _, put = await caller.call("PUT", f"{WIDGETS_PATH}/one", made)

        assert same == made
        assert put == made


async def test_a_dry_run_responds_without_storing() -> None:
    async with widget_server() as caller:
        code, tried = await caller.call(
            "POST", WIDGETS_PATH, widget("one"), query={"dryRun": "All"}
        )

        assert code == 201
        assert tried["metadata"]["uid"]
        assert "resourceVersion" not in tried["metadata"]
        assert not await caller.exists("one")


async def test_a_dry_run_of_a_patch_or_a_deletion_changes_nothing() -> None:
    async with widget_server() as caller:
        made = await caller.create("one")

        _, tried = await caller.patch("one", {"spec": {"size": 7}}, dryRun="All")
        await caller.delete("one", dryRun=["All"])

        assert tried["spec"]["size"] == 7
        assert await caller.get("one") == made


async def test_unknown_fields_are_dropped_with_a_warning_or_refused_when_strict() -> None:
    async with widget_server() as caller:
        body = widget("one", {"size": 1, "shape": "round"})

        strict = await caller.call("POST", WIDGETS_PATH, body, query={"fieldValidation": "Strict"})
        warned = await caller.send("POST", WIDGETS_PATH, body)
        ignored = await caller.send(
            "POST", WIDGETS_PATH, widget("two", {"x": 1}), query={"fieldValidation": "Ignore"}
        )

        assert strict[0] == 400
        assert strict[1]["message"] == (
            'Widget in version "v1" cannot be handled as a Widget: strict decoding error:'
            ' unknown field "spec.shape"'
        )
        assert warned.headers["warning"] == '299 - "unknown field \\"spec.shape\\""'
        assert msgspec.json.decode(warned.body)["spec"] == {"size": 1}
        assert "warning" not in ignored.headers


async def test_a_field_name_with_line_breaks_cannot_inject_a_header() -> None:
    async with widget_server() as caller:
        spec = {'a\r\nSet-Cookie: "x\\': 1, "é" * 500: 2, **{f"n{n}": n for n in range(100)}}

        answer = await caller.send("POST", WIDGETS_PATH, widget("one", spec))

        assert answer.status == 201
        assert answer.headers["warning"].isascii()
        assert answer.headers["warning"].isprintable()
        assert len(answer.headers["warning"]) < 4096


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"size": -1}, 422, "spec.size"),
        ({"size": "large"}, 422, "spec.size"),
    ],
)
async def test_a_schema_fault_names_its_field(
    change: dict[str, object], code: int, field: str
) -> None:
    async with widget_server() as caller:
        found, body = await caller.call("POST", WIDGETS_PATH, widget("one", change))

        assert found == code
        assert body["reason"] == "Invalid"
        assert [cause["field"] for cause in body["details"]["causes"]] == [field]
        assert body["details"]["kind"] == "Widget"


async def test_a_put_needs_the_current_revision_and_uid() -> None:
    async with widget_server() as caller:
        made = await caller.create("one")
        _, changed = await caller.patch("one", {"spec": {"size": 2}})
        path = f"{WIDGETS_PATH}/one"
        blind = {**changed, "metadata": {"name": "one"}}
        other = {**changed, "metadata": {**changed["metadata"], "uid": "another"}}

        stale = await caller.call("PUT", path, made)
        unconditional = await caller.call("PUT", path, blind)
        stranger = await caller.call("PUT", path, other)

        assert (stale[0], stale[1]["reason"]) == (409, "Conflict")
        assert stale[1]["message"] == (
            'Operation cannot be fulfilled on widgets.example.com "one": the object has been'
            " modified; please apply your changes to the latest version and try again"
        )
        assert unconditional[0] == 422
        assert stranger[0] == 409


async def test_a_merge_patch_with_a_stale_revision_conflicts() -> None:
    async with widget_server() as caller:
        made = await caller.create("one")
        await caller.patch("one", {"spec": {"size": 2}})
        stale = {"resourceVersion": made["metadata"]["resourceVersion"]}

        code, refused = await caller.patch("one", {"metadata": stale, "spec": {"size": 3}})

        assert (code, refused["reason"]) == (409, "Conflict")


async def test_a_failed_test_in_a_json_patch_changes_nothing() -> None:
    async with widget_server() as caller:
        made = await caller.create("one", {"size": 1})
        operations = [
            {"op": "replace", "path": "/spec/size", "value": 5},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        ]

        code, refused = await caller.call(
            "PATCH", f"{WIDGETS_PATH}/one", operations, headers=JSON_PATCH
        )

        assert (code, refused["reason"]) == (422, "Invalid")
        assert await caller.get("one") == made


async def test_custom_kinds_take_no_strategic_patch() -> None:
    async with widget_server() as caller:
        await caller.create("one")
        code, refused = await caller.call(
            "PATCH",
            f"{WIDGETS_PATH}/one",
            {"spec": {}},
            headers={"content-type": "application/strategic-merge-patch+json"},
        )

        assert (code, refused["reason"]) == (415, "UnsupportedMediaType")


async def test_a_second_create_of_a_name_is_refused() -> None:
    async with widget_server() as caller:
        await caller.create("one")

        code, refused = await caller.call("POST", WIDGETS_PATH, widget("one"))

        assert (code, refused["reason"]) == (409, "AlreadyExists")
        assert refused["message"] == 'widgets.example.com "one" already exists'
        assert refused["details"] == {"name": "one", "group": "example.com", "kind": "widgets"}


async def test_a_create_over_an_object_being_deleted_already_exists() -> None:
    async with widget_server() as caller:
        body = widget("one")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await caller.call("POST", WIDGETS_PATH, body)
        await caller.call("DELETE", f"{WIDGETS_PATH}/one")

        code, refused = await caller.call("POST", WIDGETS_PATH, widget("one"))

        assert (code, refused["reason"]) == (409, "AlreadyExists")
        message = 'object is being deleted: widgets.example.com "one" already exists'
        assert refused["message"] == message


@pytest.mark.parametrize(
    ("path", "body", "code", "message"),
    [
        (WIDGETS_PATH, widget("one", namespace="other"), 400, "namespace of the provided object"),
        (WIDGETS_PATH, widget("ONE"), 422, "lowercase RFC 1123 subdomain"),
        (WIDGETS_PATH, {**widget("one"), "kind": "Gadget"}, 422, "must be Widget"),
        (WIDGETS_PATH, {**widget("one"), "apiVersion": "v1"}, 400, "API version in the data"),
        (WIDGETS_PATH, {"metadata": {"name": "one"}}, 400, "Object 'Kind' is missing"),
        (WIDGETS_PATH, widget("", generateName=""), 422, "name or generateName is required"),
        (WIDGETS_PATH, {**widget("one"), "metadata": {"generateName": "AB-"}}, 422, "generateName"),
        (
            WIDGETS_PATH,
            {**widget("one"), "metadata": {"generateName": "x" * 254}},
            422,
            "must be no more than 253 characters",
        ),
        (WIDGETS_PATH, widget("one", labels={"a": 1}), 400, "metadata"),
        (WIDGETS_PATH, widget("one", labels={"a": "b c"}), 422, "a valid label must be"),
        (WIDGETS_PATH, widget("one", resourceVersion="7"), 400, "resourceVersion"),
        (WIDGETS_PATH, widget("one", ownerReferences=[{"uid": "x"}]), 422, "must not be empty"),
        (
            "/apis/example.com/v1/namespaces/nowhere/widgets",
            widget("one"),
            404,
            'namespaces "nowhere" not found',
        ),
    ],
)
async def test_an_invalid_create_is_refused_with_its_reason(
    path: str, body: dict[str, object], code: int, message: str
) -> None:
    async with widget_server() as caller:
        found, refused = await caller.call("POST", path, body)

        assert found == code, refused
        assert message in refused["message"]


async def test_a_generated_name_extends_its_base() -> None:
    async with widget_server() as caller:
        body = widget("", generateName="job-")
        del body["metadata"]["name"]

        _, one = await caller.call("POST", WIDGETS_PATH, body)
        _, two = await caller.call("POST", WIDGETS_PATH, body)

        assert one["metadata"]["name"].startswith("job-")
        assert len(one["metadata"]["name"]) == len("job-") + 5
        assert one["metadata"]["name"] != two["metadata"]["name"]


async def test_the_name_of_an_event_is_any_segment_of_a_path() -> None:
    events = "/api/v1/namespaces/default/events"
    async with widget_server() as caller:
        about = {"involvedObject": {"namespace": "default", "name": "one"}}
        code, made = await caller.call(
            "POST", events, {**about, "metadata": {"generateName": "one."}}
        )
        refused, _ = await caller.call("POST", events, {**about, "metadata": {"name": "a%b"}})

        assert (code, refused) == (201, 422), made
        assert made["metadata"]["name"].startswith("one.")


async def test_a_body_may_be_yaml_and_a_json_body_may_go_unlabelled() -> None:
    async with widget_server() as caller:
        text = b"kind: Widget\napiVersion: example.com/v1\nmetadata: {name: one}\nspec: {size: 4}\n"

        code, made = await caller.call(
            "POST", WIDGETS_PATH, text, headers={"content-type": "application/yaml"}
        )
        unlabelled = await caller.send("POST", WIDGETS_PATH, widget("two"))
        text_only = await caller.send(
            "POST", WIDGETS_PATH, widget("three"), headers={"content-type": "text/plain"}
        )

        assert (code, made["spec"]["size"]) == (201, 4)
        assert unlabelled.status == 201
        assert text_only.status == 415


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("application/yaml", b"a: &x [1]\nb: *x\n"),
        ("application/yaml", b"a: [\n"),
        ("application/json", b'{"a":'),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"a":' * 300 + b"1" + b"}" * 300),
        ("application/json", b"[1]"),
        ("application/json", b'{"a": ' + b"1" * 10_000 + b"}"),
        ("application/json", b"\xff\xfe"),
    ],
)
async def test_a_body_that_cannot_be_read_is_a_bad_request(form: str, body: bytes) -> None:
    async with widget_server() as caller:
        code, refused = await caller.call(
            "POST", WIDGETS_PATH, body, headers={"content-type": form}
        )

        assert (code, refused["reason"]) == (400, "BadRequest")


async def test_a_body_beyond_the_limit_is_refused() -> None:
    async with widget_server() as caller:
        code, refused = await caller.call("POST", WIDGETS_PATH, b" " * (3 * 2**20 + 1))

        assert (code, refused["reason"]) == (413, "RequestEntityTooLarge")


async def test_built_in_objects_may_omit_their_type() -> None:
    async with widget_server() as caller:
        code, made = await caller.call(
            "POST", CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"a": "b"}}
        )

        assert code == 201
        assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
        assert "generation" not in made["metadata"]


async def test_a_strategic_patch_of_a_built_in_unites_finalizers() -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "one", "finalizers": ["a.io/x"]}, "data": {"a": "b"}}
        await caller.call("POST", CONFIG_MAPS, body)

        _, found = await caller.call(
            "PATCH",
            f"{CONFIG_MAPS}/one",
            {
                "metadata": {
                    "finalizers": ["b.io/y"],
                    "$setElementOrder/finalizers": ["a.io/x", "b.io/y"],
                },
                "data": {"c": "d"},
            },
            headers={"content-type": "application/strategic-merge-patch+json"},
        )

        assert found["metadata"]["finalizers"] == ["a.io/x", "b.io/y"]
        assert found["data"] == {"a": "b", "c": "d"}


async def test_plain_text_in_a_secret_is_stored_encoded() -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "one"}, "stringData": {"password": "hunter2"}}

        _, made = await caller.call("POST", SECRETS, body)

        assert base64.b64decode(made["data"]["password"]) == b"hunter2"
        assert made["type"] == "Opaque"
        assert "stringData" not in made


async def test_deleting_returns_a_status_or_the_object_while_it_has_finalizers() -> None:
    async with widget_server() as caller:
        free = await caller.create("free")
        await caller.create("held", finalizers=["example.com/hold"])

        code, gone = await caller.delete("free")
        _, held = await caller.delete("held")
        _, again = await caller.delete("held")

        assert code == 200
        assert gone["status"] == "Success"
        assert gone["details"]["uid"] == free["metadata"]["uid"]
        assert held["metadata"]["deletionTimestamp"]
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["metadata"]["generation"] == 2
        assert again == held


async def test_an_object_is_removed_with_its_last_finalizer() -> None:
    async with widget_server() as caller:
        await caller.create("one", finalizers=["example.com/a", "example.com/b"])
        await caller.delete("one")

        await caller.patch("one", {"metadata": {"finalizers": ["example.com/b"]}})
        still_there = await caller.exists("one")
        code, _ = await caller.patch("one", {"metadata": {"finalizers": None}})

        assert still_there
        assert code == 200
        assert not await caller.exists("one")


async def test_no_finalizer_may_be_added_while_deleting() -> None:
    async with widget_server() as caller:
        await caller.create("one", finalizers=["example.com/a"])
        await caller.delete("one")

        code, refused = await caller.patch(
            "one", {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
        )

        assert code == 422
        assert [c["reason"] for c in refused["details"]["causes"]] == ["FieldValueForbidden"]


async def test_deletion_preconditions_are_checked() -> None:
    async with widget_server() as caller:
        await caller.create("one")

        by_uid = await caller.delete("one", preconditions={"uid": "another"})
        by_revision = await caller.delete("one", preconditions={"resourceVersion": "1"})

        assert by_uid[0] == 409
        assert by_revision[0] == 409
        assert await caller.exists("one")


async def test_a_collection_is_deleted_by_selector_and_returned() -> None:
    async with widget_server() as caller:
        await caller.create("one", labels={"a": "b"})
        await caller.create("two")

        code, gone = await caller.call("DELETE", WIDGETS_PATH, query={"labelSelector": "a=b"})

        assert code == 200
        assert [item["metadata"]["name"] for item in gone["items"]] == ["one"]
        assert not await caller.exists("one")
        assert await caller.exists("two")


async def test_concurrent_writes_to_one_object_build_on_each_other() -> None:
    async with widget_server() as caller:
        await caller.create("one", {"tags": []})

        answers = await asyncio.gather(
            *(
                caller.call(
                    "PATCH",
                    f"{WIDGETS_PATH}/one",
                    [{"op": "add", "path": "/spec/tags/-", "value": str(n)}],
                    headers=JSON_PATCH,
                )
                for n in range(20)
            )
        )

        found = await caller.get("one")
        assert sorted(found["spec"]["tags"], key=int) == [str(n) for n in range(20)]
        revisions = [answer["metadata"]["resourceVersion"] for _, answer in answers]
        assert len(set(revisions)) == 20


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "application/merge-patch+json"}, b'{"spec":{"size":1e3}}'),
        (JSON_PATCH, b'[{"op":"add","path":"/spec/size","value":1000.0}]'),
    ],
    ids=["merge patch", "JSON patch"],
)
async def test_a_whole_number_with_a_point_is_stored_as_an_integer(
    headers: dict[str, str], body: bytes
) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        await caller.call("PATCH", f"{WIDGETS_PATH}/one", body, headers=headers)

        response = await caller.send("GET", f"{WIDGETS_PATH}/one")
        assert b'"size":1000}' in response.body


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_a_whole_number_with_a_point_fits_an_integer_field(form: str) -> None:
    async with widget_server() as caller:
        body = msgspec.json.encode(widget("one", {"size": 7.0}))
        headers = {"content-type": f"application/{form}"}

        code, _ = await caller.call("POST", WIDGETS_PATH, body, headers=headers)

        response = await caller.send("GET", f"{WIDGETS_PATH}/one")
        assert code == 201
        assert b'"size":7}' in response.body
