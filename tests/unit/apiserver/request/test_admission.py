"""Somebody is asked before some kinds are stored, and the world may move meanwhile."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.apiserver.request.admission import Admission
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.decisions.workloads import CONTAINER, with_changes

PATH = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads"

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def allowed(**more: Any) -> dict[str, Any]:
    return {"allowed": True, **more}


def refused(code: int = 422, **details: Any) -> dict[str, Any]:
    status = {"code": code, "reason": "Invalid", "message": "not today", "details": details}
    return {"allowed": False, "status": status}


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return allowed(patchType="JSONPatch", patch=encoded)


class Examiner:
    """Remembers what it was asked, and answers as told."""

    def __init__(self) -> None:
        self.mutating: list[dict[str, Any]] = []
        self.validating: list[dict[str, Any]] = []
        self.on_mutate: Answer | None = None
        self.on_validate: Answer | None = None

    async def mutate(self, review: dict[str, Any]) -> dict[str, Any]:
        return await self._answer(review, self.mutating, self.on_mutate)

    async def validate(self, review: dict[str, Any]) -> dict[str, Any]:
        return await self._answer(review, self.validating, self.on_validate)

    async def _answer(
        self, review: dict[str, Any], asked: list[dict[str, Any]], answer: Answer | None
    ) -> dict[str, Any]:
        request = copy.deepcopy(review["request"])
        asked.append(request)
        response = await answer(request) if answer else allowed()
        return {**review, "response": {"uid": request["uid"], **response}}


def always(response: dict[str, Any]) -> Answer:
    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        return response

    return answer


@asynccontextmanager
async def examined() -> AsyncIterator[tuple[EmbeddedServer, Examiner]]:
    examiner = Examiner()
    resources = frozenset({compute.WORKLOADS.group_resource, "configmaps"})
    admission = Admission("examiner", resources, examiner.mutate, examiner.validate)
    async with embedded_server(admission=admission) as embedded:
        yield embedded, examiner


async def send(
    embedded: EmbeddedServer, method: str, path: str, body: Any, *query: tuple[str, str]
) -> HttpResponse:
    prefix = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/demo/control-plane"
    form = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"authorization": f"Bearer {embedded.token()}", "content-type": form}
    encoded = json.dumps(body).encode()
    return await embedded.server.handle(HttpRequest(method, prefix + path, query, headers, encoded))


async def create(embedded: EmbeddedServer, **changes: Any) -> Any:
    client = embedded.client("project/demo")
    return await client.create(compute.WORKLOADS, with_changes(CONTAINER, changes), "default")


async def test_what_is_about_to_be_stored_is_shown_first() -> None:
    async with examined() as (embedded, examiner):
        made = await create(embedded)

        (mutating,), (validating,) = examiner.mutating, examiner.validating
        for request in (mutating, validating):
            assert request["operation"] == "CREATE"
            assert request["resource"]["resource"] == "workloads"
            assert (request["namespace"], request["name"]) == ("default", "api")
            assert request["userInfo"]["username"] == "admin"
            assert "system:masters" in request["userInfo"]["groups"]
            assert request["userInfo"]["extra"]["iam.miloapis.com/parent-name"] == ["demo"]
            assert request["oldObject"] is None
            assert request["dryRun"] is False
        scale = validating["object"]["spec"]["placements"][0]["scaleSettings"]
        assert scale["instanceManagementPolicy"] == "OrderedReady"  # what the schema fills in
        assert made.metadata.generation == 1


async def test_a_patch_is_honoured_and_what_is_judged_is_what_is_stored() -> None:
    async with examined() as (embedded, examiner):
        operation = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
        examiner.on_mutate = always(patch(operation))

        made = await create(embedded)

        assert made.metadata.labels == {"seen": "yes"}
        assert examiner.validating[0]["object"]["metadata"]["labels"] == {"seen": "yes"}


async def test_an_update_shows_what_is_stored_and_what_is_to_be() -> None:
    async with examined() as (embedded, examiner):
        await create(embedded)
        client = embedded.client("project/demo")
        await client.patch(
            compute.WORKLOADS, "api", merge({"metadata": {"labels": {"a": "b"}}}), "default"
        )

        request = examiner.validating[-1]
        assert request["operation"] == "UPDATE"
        assert "labels" not in request["oldObject"]["metadata"]
        assert request["object"]["metadata"]["labels"] == {"a": "b"}


async def test_a_denial_is_returned_with_its_causes_and_nothing_is_stored() -> None:
    async with examined() as (embedded, examiner):
        cause = {"field": "spec.x", "reason": "FieldValueInvalid", "message": "no"}
        examiner.on_validate = always(refused(causes=[cause]))

        with pytest.raises(errors.Invalid) as refusal:
            await create(embedded)

        assert 'admission webhook "examiner" denied the request: not today' in str(refusal.value)
        assert refusal.value.causes == (errors.StatusCause("spec.x", "FieldValueInvalid", "no"),)
        listed = await embedded.client("project/demo").list(compute.WORKLOADS, "default")
        assert listed.items == []


async def test_warnings_become_headers_with_every_answer() -> None:
    async with examined() as (embedded, examiner):
        examiner.on_validate = always(allowed(warnings=['mind "this"', "and that"]))
        body = with_changes(CONTAINER, {"spec.shape": "round"})
        taken = await send(embedded, "POST", PATH, body)
        examiner.on_validate = always({**refused(), "warnings": ["mind this"]})
        denied = await send(embedded, "POST", PATH, with_changes(body, {"metadata.name": "b"}))

        assert (taken.status, denied.status) == (201, 422)
        assert taken.headers["warning"] == (
            '299 - "mind \\"this\\"", 299 - "and that", 299 - "unknown field \\"spec.shape\\""'
        )
        assert denied.headers["warning"] == '299 - "mind this"'


async def test_a_dry_run_is_asked_about_and_stores_nothing() -> None:
    async with examined() as (embedded, examiner):
        answer = await send(embedded, "POST", PATH, CONTAINER, ("dryRun", "All"))

        assert answer.status == 201
        assert examiner.validating[0]["dryRun"] is True
        assert (await send(embedded, "GET", f"{PATH}/api", None)).status == 404


async def test_a_generated_name_is_the_one_that_was_judged() -> None:
    async with examined() as (embedded, examiner):
        made = await create(embedded, metadata={"generateName": "api-"})

        assert made.name.startswith("api-")
        assert examiner.validating[0]["object"]["metadata"]["name"] == made.name


async def test_status_writes_noops_deletes_and_other_kinds_are_not_reviewed() -> None:
    async with examined() as (embedded, examiner):
        await create(embedded)
        client = embedded.client("project/demo")
        asked = len(examiner.validating)

        status = {"status": {"replicas": 1}}
        await client.patch(compute.WORKLOADS, "api", merge(status), "default", subresource="status")
        await client.patch(compute.WORKLOADS, "api", merge({"metadata": {}}), "default")
        await client.create(core.NAMESPACES, {"metadata": {"name": "other"}})
        cell = embedded.client("cell/dfw")
        await cell.create(core.CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
        await client.delete(compute.WORKLOADS, "api", "default")

        assert len(examiner.validating) == asked


async def test_the_schema_is_checked_before_admission() -> None:
    async with examined() as (embedded, examiner):
        with pytest.raises(errors.Invalid):
            await create(embedded, **{"SCALE.minReplicas": 5000})

        assert examiner.mutating == []


async def test_a_patch_is_recomputed_after_a_concurrent_write() -> None:
    async with examined() as (embedded, examiner):
        await create(embedded)
        client = embedded.client("project/demo")

        async def interfere(request: dict[str, Any]) -> dict[str, Any]:
            if request["object"]["metadata"].get("labels") == {"a": "b"}:
                examiner.on_validate = None
                other = merge({"metadata": {"annotations": {"c": "d"}}})
                await client.patch(compute.WORKLOADS, "api", other, "default")
            return allowed()

        examiner.on_validate = interfere
        wanted = merge({"metadata": {"labels": {"a": "b"}}})
        made = await client.patch(compute.WORKLOADS, "api", wanted, "default")

        assert (made.metadata.labels, made.metadata.annotations) == ({"a": "b"}, {"c": "d"})
        judged = examiner.validating[-1]["object"]["metadata"]
        assert (judged["labels"], judged["annotations"]) == ({"a": "b"}, {"c": "d"})


async def test_a_patch_that_is_never_the_latest_is_a_conflict() -> None:
    async with examined() as (embedded, examiner):
        await create(embedded)
        client = embedded.client("project/demo")
        writes = iter(range(100))

        async def interfere(request: dict[str, Any]) -> dict[str, Any]:
            if "labels" in request["object"]["metadata"]:
                other = merge({"status": {"replicas": next(writes)}})
                await client.patch(compute.WORKLOADS, "api", other, "default", subresource="status")
            return allowed()

        examiner.on_validate = interfere
        wanted = merge({"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(errors.Conflict):
            await client.patch(compute.WORKLOADS, "api", wanted, "default")

        stored = await client.get(compute.WORKLOADS, "api", "default")
        assert stored.metadata.labels == {}


async def test_an_update_of_what_has_moved_is_a_conflict() -> None:
    async with examined() as (embedded, examiner):
        await create(embedded)
        client = embedded.client("project/demo")
        read = json.loads((await send(embedded, "GET", f"{PATH}/api", None)).body)

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            examiner.on_validate = None
            await client.patch(
                compute.WORKLOADS, "api", merge({"metadata": {"labels": {"c": "d"}}}), "default"
            )
            return allowed()

        examiner.on_validate = interfere
        answer = await send(
            embedded, "PUT", f"{PATH}/api", with_changes(read, {"metadata.labels": {"a": "b"}})
        )

        assert answer.status == 409
        stored = await client.get(compute.WORKLOADS, "api", "default")
        assert stored.metadata.labels == {"c": "d"}


async def test_what_is_deleted_meanwhile_is_not_brought_back() -> None:
    async with examined() as (embedded, examiner):
        await create(embedded)
        client = embedded.client("project/demo")

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            await client.delete(compute.WORKLOADS, "api", "default")
            return allowed()

        examiner.on_validate = interfere
        with pytest.raises(errors.NotFound):
            await client.patch(
                compute.WORKLOADS, "api", merge({"metadata": {"labels": {"a": "b"}}}), "default"
            )

        assert (await client.list(compute.WORKLOADS)).items == []


async def test_two_creates_of_one_name_make_one() -> None:
    async with examined() as (embedded, examiner):
        both = asyncio.Event()

        async def together(_: dict[str, Any]) -> dict[str, Any]:
            if len(examiner.validating) == 2:
                both.set()
            await both.wait()
            return allowed()

        examiner.on_validate = together
        outcomes = await asyncio.gather(create(embedded), create(embedded), return_exceptions=True)

        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists", "Object"]


async def test_nothing_is_put_into_a_namespace_that_is_being_removed() -> None:
    async with examined() as (embedded, examiner):
        client = embedded.client("project/demo")
        await client.create(core.NAMESPACES, {"metadata": {"name": "brief"}})

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            await client.delete(core.NAMESPACES, "brief")
            return allowed()

        examiner.on_validate = interfere
        workload = with_changes(CONTAINER, {"metadata.namespace": "brief"})
        with pytest.raises((errors.Forbidden, errors.NotFound)):
            await client.create(compute.WORKLOADS, workload, "brief")


async def test_nothing_is_put_into_a_plane_that_is_gone() -> None:
    async with examined() as (embedded, examiner):
        await embedded.create_project("brief")

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            await embedded.client("root").delete(resourcemanager.PROJECTS, "brief")
            await embedded.create_project("brief")
            return allowed()

        examiner.on_validate = interfere
        client = embedded.client("project/brief")
        with pytest.raises(errors.NotServed):
            await client.create(compute.WORKLOADS, CONTAINER, "default")

        assert (await client.list(compute.WORKLOADS)).items == []


async def test_a_failed_admission_call_denies() -> None:
    async with examined() as (embedded, examiner):

        async def fail(_: dict[str, Any]) -> dict[str, Any]:
            raise ConnectionError("gone")

        examiner.on_validate = fail
        with pytest.raises(errors.ServerError, match='failed calling webhook "examiner": gone'):
            await create(embedded)

        examiner.on_validate = None
        examiner.on_mutate = always(patch({"op": "remove", "path": "/nowhere"}))
        with pytest.raises(errors.ServerError, match="its patch does not fit"):
            await create(embedded)


# Reviews about others, which admissions ask for.


async def test_a_user_may_review_the_rights_of_others() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        may = {"verb": "use", "group": "networking.datumapis.com", "resource": "networks"}

        async def ask(**subject: Any) -> bool:
            spec = {**subject, "resourceAttributes": may}
            answer = await client.create(core.SUBJECT_ACCESS_REVIEWS, {"spec": spec})
            return answer.view(core.SubjectAccessReview).status.allowed

        assert await ask(user="ana", groups=["system:masters"])
        assert not await ask(user="ana", groups=["developers"])
        with pytest.raises(errors.Invalid, match="at least one of user or groups"):
            await ask()


async def test_reviewing_others_needs_a_right() -> None:
    async with embedded_server() as embedded:
        embedded.token("ana", groups=("developers",))
        client = embedded.client("project/demo", "ana")

        with pytest.raises(errors.Forbidden, match="cannot create resource"):
            await client.create(
                core.SUBJECT_ACCESS_REVIEWS,
                {"spec": {"user": "bo", "resourceAttributes": {"verb": "get"}}},
            )
