"""Writes of some kinds are reviewed before they are stored, and objects may change meanwhile."""

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
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.apiserver.workers import CountingWorker
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


class Reviewer:
    """Records the reviews, and responds as the test sets it."""

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
        self, review: dict[str, Any], reviewed: list[dict[str, Any]], answer: Answer | None
    ) -> dict[str, Any]:
        request = copy.deepcopy(review["request"])
        reviewed.append(request)
        response = await answer(request) if answer else allowed()
        return {**review, "response": {"uid": request["uid"], **response}}


def always(response: dict[str, Any]) -> Answer:
    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        return response

    return answer


@asynccontextmanager
async def reviewed_server(
    worker: WorkerProcess | None = None,
) -> AsyncIterator[tuple[EmbeddedServer, Reviewer]]:
    reviewer = Reviewer()
    resources = frozenset({compute.WORKLOADS.group_resource, "configmaps"})
    admission = Admission("reviewer", resources, reviewer.mutate, reviewer.validate)
    async with embedded_server(admissions=[admission], worker=worker) as embedded:
        yield embedded, reviewer


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


async def test_a_write_is_reviewed_before_it_is_stored() -> None:
    async with reviewed_server() as (embedded, reviewer):
        made = await create(embedded)

        (mutating,), (validating,) = reviewer.mutating, reviewer.validating
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


async def test_a_mutation_is_applied_and_the_mutated_object_is_validated_and_stored() -> None:
    async with reviewed_server() as (embedded, reviewer):
        operation = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
        reviewer.on_mutate = always(patch(operation))

        made = await create(embedded)

        assert made.metadata.labels == {"seen": "yes"}
        assert reviewer.validating[0]["object"]["metadata"]["labels"] == {"seen": "yes"}


async def test_an_update_is_reviewed_with_the_old_and_the_new_object() -> None:
    async with reviewed_server() as (embedded, reviewer):
        await create(embedded)
        client = embedded.client("project/demo")
        await client.patch(
            compute.WORKLOADS, "api", merge({"metadata": {"labels": {"a": "b"}}}), "default"
        )

        request = reviewer.validating[-1]
        assert request["operation"] == "UPDATE"
        assert "labels" not in request["oldObject"]["metadata"]
        assert request["object"]["metadata"]["labels"] == {"a": "b"}


async def test_a_denial_is_returned_with_its_causes_and_nothing_is_stored() -> None:
    async with reviewed_server() as (embedded, reviewer):
        cause = {"field": "spec.x", "reason": "FieldValueInvalid", "message": "no"}
        reviewer.on_validate = always(refused(causes=[cause]))

        with pytest.raises(errors.Invalid) as refusal:
            await create(embedded)

        assert 'admission webhook "reviewer" denied the request: not today' in str(refusal.value)
        assert refusal.value.causes == (errors.StatusCause("spec.x", "FieldValueInvalid", "no"),)
        listed = await embedded.client("project/demo").list(compute.WORKLOADS, "default")
        assert listed.items == []


async def test_warnings_become_headers_of_every_response() -> None:
    async with reviewed_server() as (embedded, reviewer):
        reviewer.on_validate = always(allowed(warnings=['mind "this"', "and that"]))
        body = with_changes(CONTAINER, {"spec.shape": "round"})
        taken = await send(embedded, "POST", PATH, body)
        reviewer.on_validate = always({**refused(), "warnings": ["mind this"]})
        denied = await send(embedded, "POST", PATH, with_changes(body, {"metadata.name": "b"}))

        assert (taken.status, denied.status) == (201, 422)
        assert taken.headers["warning"] == (
            '299 - "mind \\"this\\"", 299 - "and that", 299 - "unknown field \\"spec.shape\\""'
        )
        assert denied.headers["warning"] == '299 - "mind this"'


async def test_a_dry_run_is_reviewed_and_stores_nothing() -> None:
    async with reviewed_server() as (embedded, reviewer):
        answer = await send(embedded, "POST", PATH, CONTAINER, ("dryRun", "All"))

        assert answer.status == 201
        assert reviewer.validating[0]["dryRun"] is True
        assert (await send(embedded, "GET", f"{PATH}/api", None)).status == 404


async def test_a_generated_name_is_the_one_that_was_reviewed() -> None:
    async with reviewed_server() as (embedded, reviewer):
        made = await create(embedded, metadata={"generateName": "api-"})

        assert made.name.startswith("api-")
        assert reviewer.validating[0]["object"]["metadata"]["name"] == made.name


async def test_status_writes_noops_deletes_and_other_kinds_are_not_reviewed() -> None:
    async with reviewed_server() as (embedded, reviewer):
        await create(embedded)
        client = embedded.client("project/demo")
        before = len(reviewer.validating)

        status = {"status": {"replicas": 1}}
        await client.patch(compute.WORKLOADS, "api", merge(status), "default", subresource="status")
        await client.patch(compute.WORKLOADS, "api", merge({"metadata": {}}), "default")
        await client.create(core.NAMESPACES, {"metadata": {"name": "other"}})
        cell = embedded.client("cell/dfw")
        await cell.create(core.CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
        await client.delete(compute.WORKLOADS, "api", "default")

        assert len(reviewer.validating) == before


async def test_the_schema_is_checked_before_admission() -> None:
    async with reviewed_server() as (embedded, reviewer):
        with pytest.raises(errors.Invalid):
            await create(embedded, **{"SCALE.minReplicas": 5000})

        assert reviewer.mutating == []


async def test_a_patch_is_recomputed_after_a_concurrent_write() -> None:
    async with reviewed_server() as (embedded, reviewer):
        await create(embedded)
        client = embedded.client("project/demo")

        async def interfere(request: dict[str, Any]) -> dict[str, Any]:
            if request["object"]["metadata"].get("labels") == {"a": "b"}:
                reviewer.on_validate = None
                other = merge({"metadata": {"annotations": {"c": "d"}}})
                await client.patch(compute.WORKLOADS, "api", other, "default")
            return allowed()

        reviewer.on_validate = interfere
        wanted = merge({"metadata": {"labels": {"a": "b"}}})
        made = await client.patch(compute.WORKLOADS, "api", wanted, "default")

        assert (made.metadata.labels, made.metadata.annotations) == ({"a": "b"}, {"c": "d"})
        judged = reviewer.validating[-1]["object"]["metadata"]
        assert (judged["labels"], judged["annotations"]) == ({"a": "b"}, {"c": "d"})


async def test_a_patch_that_is_never_the_latest_is_a_conflict() -> None:
    async with reviewed_server() as (embedded, reviewer):
        await create(embedded)
        client = embedded.client("project/demo")
        writes = iter(range(100))

        async def interfere(request: dict[str, Any]) -> dict[str, Any]:
            if "labels" in request["object"]["metadata"]:
                other = merge({"status": {"replicas": next(writes)}})
                await client.patch(compute.WORKLOADS, "api", other, "default", subresource="status")
            return allowed()

        reviewer.on_validate = interfere
        wanted = merge({"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(errors.Conflict):
            await client.patch(compute.WORKLOADS, "api", wanted, "default")

        stored = await client.get(compute.WORKLOADS, "api", "default")
        assert stored.metadata.labels == {}


async def test_an_update_of_an_object_that_changed_during_review_is_a_conflict() -> None:
    async with reviewed_server() as (embedded, reviewer):
        await create(embedded)
        client = embedded.client("project/demo")
        read = json.loads((await send(embedded, "GET", f"{PATH}/api", None)).body)

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            reviewer.on_validate = None
            await client.patch(
                compute.WORKLOADS, "api", merge({"metadata": {"labels": {"c": "d"}}}), "default"
            )
            return allowed()

        reviewer.on_validate = interfere
        answer = await send(
            embedded, "PUT", f"{PATH}/api", with_changes(read, {"metadata.labels": {"a": "b"}})
        )

        assert answer.status == 409
        stored = await client.get(compute.WORKLOADS, "api", "default")
        assert stored.metadata.labels == {"c": "d"}


async def test_an_object_deleted_during_review_is_not_created_again() -> None:
    async with reviewed_server() as (embedded, reviewer):
        await create(embedded)
        client = embedded.client("project/demo")

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            await client.delete(compute.WORKLOADS, "api", "default")
            return allowed()

        reviewer.on_validate = interfere
        with pytest.raises(errors.NotFound):
            await client.patch(
                compute.WORKLOADS, "api", merge({"metadata": {"labels": {"a": "b"}}}), "default"
            )

        assert (await client.list(compute.WORKLOADS)).items == []


async def test_only_one_of_two_concurrent_creates_succeeds() -> None:
    async with reviewed_server() as (embedded, reviewer):
        both = asyncio.Event()

        async def together(_: dict[str, Any]) -> dict[str, Any]:
            if len(reviewer.validating) == 2:
                both.set()
            await both.wait()
            return allowed()

        reviewer.on_validate = together
        outcomes = await asyncio.gather(create(embedded), create(embedded), return_exceptions=True)

        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists", "Object"]


async def test_nothing_is_created_in_a_namespace_that_is_being_deleted() -> None:
    async with reviewed_server() as (embedded, reviewer):
        client = embedded.client("project/demo")
        await client.create(core.NAMESPACES, {"metadata": {"name": "brief"}})

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            await client.delete(core.NAMESPACES, "brief")
            return allowed()

        reviewer.on_validate = interfere
        workload = with_changes(CONTAINER, {"metadata.namespace": "brief"})
        with pytest.raises((errors.Forbidden, errors.NotFound)):
            await client.create(compute.WORKLOADS, workload, "brief")


async def test_nothing_is_created_in_a_deleted_plane() -> None:
    async with reviewed_server() as (embedded, reviewer):
        await embedded.create_project("brief")

        async def interfere(_: dict[str, Any]) -> dict[str, Any]:
            await embedded.client("root").delete(resourcemanager.PROJECTS, "brief")
            await embedded.create_project("brief")
            return allowed()

        reviewer.on_validate = interfere
        client = embedded.client("project/brief")
        with pytest.raises(errors.NotServed):
            await client.create(compute.WORKLOADS, CONTAINER, "default")

        assert (await client.list(compute.WORKLOADS)).items == []


async def test_a_failed_admission_call_denies_the_write() -> None:
    async with reviewed_server() as (embedded, reviewer):

        async def fail(_: dict[str, Any]) -> dict[str, Any]:
            raise ConnectionError("gone")

        reviewer.on_validate = fail
        with pytest.raises(errors.ServerError, match='failed calling webhook "reviewer": gone'):
            await create(embedded)

        reviewer.on_validate = None
        reviewer.on_mutate = always(patch({"op": "remove", "path": "/nowhere"}))
        with pytest.raises(errors.ServerError, match="its patch does not apply"):
            await create(embedded)


# Reviews about other users, which admissions create.


async def test_a_user_may_review_the_rights_of_others() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        may = {"verb": "use", "group": "networking.datumapis.com", "resource": "networks"}

        async def review(**subject: Any) -> bool:
            spec = {**subject, "resourceAttributes": may}
            answer = await client.create(core.SUBJECT_ACCESS_REVIEWS, {"spec": spec})
            return answer.view(core.SubjectAccessReview).status.allowed

        assert await review(user="ana", groups=["system:masters"])
        assert not await review(user="ana", groups=["developers"])
        with pytest.raises(errors.Invalid, match="at least one of user or group"):
            await review()


async def test_reviewing_the_rights_of_others_needs_a_right() -> None:
    async with embedded_server() as embedded:
        embedded.token("ana", groups=("developers",))
        client = embedded.client("project/demo", "ana")

        with pytest.raises(errors.Forbidden, match="cannot create resource"):
            await client.create(
                core.SUBJECT_ACCESS_REVIEWS,
                {"spec": {"user": "bo", "resourceAttributes": {"verb": "get"}}},
            )


@pytest.mark.realtime
async def test_a_large_body_is_reviewed_as_it_would_be_stored() -> None:
    worker = CountingWorker()
    async with reviewed_server(worker) as (embedded, reviewer):
        unknown = {f"key{index}": 1 for index in range(20_000)}
        body = {**with_changes(CONTAINER, {}), **unknown}

        made = await send(embedded, "POST", PATH, body)
        changed = await send(embedded, "PATCH", f"{PATH}/api", {"metadata": unknown})
        strict = await send(embedded, "POST", PATH, body, ("fieldValidation", "Strict"))

        assert (made.status, changed.status, strict.status) == (201, 200, 400)
        assert made.headers["warning"].startswith('299 - "unknown field')
        assert worker.completed == 3
        (request,) = reviewer.validating
        assert not unknown.keys() & request["object"].keys()
        stored = json.loads(made.body)
        assert stored["spec"] == request["object"]["spec"]


@pytest.mark.realtime
async def test_an_object_that_is_too_large_to_review_is_refused() -> None:
    async with reviewed_server(CountingWorker()) as (embedded, reviewer):
        data = {f"key{index}": "text" for index in range(20_000)}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": data}

        response = await send(embedded, "POST", "/api/v1/namespaces/default/configmaps", body)

        assert response.status == 413
        assert "limit is 65536" in json.loads(response.body)["message"]
        assert not reviewer.mutating
