"""An Instance that is deleted releases its hub copy and its claim, whatever the planes respond.

A plane that does not answer delays nothing: the finalizer is removed, and what is left there
is swept on reconnect. While a plane refuses, the finalizer stays and the release is retried.
"""

from __future__ import annotations

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.transport import HttpResponse
from tests.support.client.intercepted_transport import (
    CUT,
    Action,
    Rule,
    fail,
    forbid,
    hang,
    refuse,
    respond,
)
from tests.support.controllers.cell_instances import (
    CLAIM,
    DEPLOYMENT,
    NAME,
    controller,
    create_prerequisites,
    finalizers,
    granted,
    left_behind,
    until_nothing_left,
)
from tests.support.controllers.planes import NAMESPACE, controller_planes, settle
from tests.support.objects import until_gone

HUB, PROJECT = "hub", "project/demo"
FINALIZER = {HUB: compute.FINALIZER_INSTANCE, PROJECT: compute.FINALIZER_QUOTA_CLAIM}


def page(code: int, text: str) -> Action:
    """An answer of something in between, or of no API server at all."""
    return respond(HttpResponse(code, {"content-type": "text/html"}, text.encode()))


NO_ANSWER = {
    "connect": fail(errors.ConnectFailed("connection refused")),
    "tls": fail(errors.ConnectFailed("certificate verify failed")),
    "broken": fail(errors.Disconnected("reset by peer")),
    "timeout": fail(errors.TimedOut("no answer in time")),
    "silence": hang,
    "502": page(502, "<html>Bad Gateway</html>"),
    "503": page(503, "<html>Service Unavailable</html>"),
    "503-status": refuse(503, "ServiceUnavailable"),
    "503-later": refuse(503, "ServiceUnavailable", **{"retry-after": "30"}),
    "504": page(504, "upstream request timeout"),
    "504-status": refuse(504, "Timeout"),
}

AN_ANSWER = {
    "400": refuse(400, "BadRequest"),
    "401": refuse(401, "Unauthorized"),
    "403": refuse(403, "Forbidden"),
    "404-kind": page(404, "404 page not found"),
    "405": refuse(405, "MethodNotAllowed"),
    "409": refuse(409, "Conflict"),
    "410": refuse(410, "Expired"),
    "422": refuse(422, "Invalid"),
    "429": refuse(429, "TooManyRequests"),
    "429-later": refuse(429, "TooManyRequests", **{"retry-after": "30"}),
    "500": refuse(500, "InternalError"),
    "501": page(501, "not implemented"),
    "a-page": page(200, "<html>Please log in</html>"),
}


@pytest.mark.parametrize("plane", [HUB, PROJECT])
@pytest.mark.parametrize("trouble", NO_ANSWER.values(), ids=NO_ANSWER)
async def test_an_instance_is_deleted_without_an_answer_and_swept_later(
    plane: str, trouble: Action
) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked(plane)
        running = controller(w, **{"hub" if plane == HUB else "project": client})
        async with w.running(running):
            await granted(w)
            link.rules.append(Rule(trouble))
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            left = await left_behind(w)
            assert left == [FINALIZER[plane]], "exactly one plane was not cleaned up"
            assert running.statistics().errors == 0, (
                "a reconcile failed because a plane is unreachable"
            )

            link.rules.clear()
            await until_nothing_left(w)


@pytest.mark.parametrize("plane", [HUB, PROJECT])
@pytest.mark.parametrize("trouble", AN_ANSWER.values(), ids=AN_ANSWER)
async def test_an_error_response_keeps_the_finalizer_until_the_release_succeeds(
    plane: str, trouble: Action
) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked(plane)
        async with w.running(controller(w, **{"hub" if plane == HUB else "project": client})):
            await granted(w)
            link.rules.append(Rule(trouble))
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await settle(120)
            assert await finalizers(w) == [FINALIZER[plane]]
            assert await left_behind(w) == [FINALIZER[plane]], "the other was cleaned up"

            link.rules.clear()
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            assert await left_behind(w) == []


@pytest.mark.parametrize("first", [HUB, PROJECT])
async def test_a_reconnected_plane_is_swept_without_waiting_for_the_other(first: str) -> None:
    """An unreachable plane does not block the other."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        (hub, hub_line), (project, project_line) = w.linked(HUB), w.linked(PROJECT)
        running = controller(w, hub=hub, project=project)
        async with w.running(running):
            await granted(w)
            for line in (hub_line, project_line):
                line.rules.append(CUT)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle(600)
            assert len(await left_behind(w)) == 2

            (hub_line if first == HUB else project_line).rules.clear()

            await settle(60)
            other = PROJECT if first == HUB else HUB
            assert await left_behind(w) == [FINALIZER[other]]
            for line in (hub_line, project_line):
                line.rules.clear()
            await until_nothing_left(w)
            assert running.statistics().errors == 0


@pytest.mark.parametrize("plane", [HUB, PROJECT])
async def test_a_refused_sweep_is_reported_as_a_failure_and_retried(
    plane: str,
) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked(plane)
        running = controller(w, **{"hub" if plane == HUB else "project": client})
        async with w.running(running):
            await granted(w)
            link.rules.append(CUT)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            link.rules[:] = [forbid("DELETE")]
            await settle(600)
            assert await left_behind(w) == [FINALIZER[plane]]
            assert running.statistics().errors > 0

            link.rules.clear()
            await until_nothing_left(w)


async def test_a_claim_is_released_although_its_namespace_is_gone_from_the_cell() -> None:
    """The labels of the claim name its Instance."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        project, line = w.linked(PROJECT)
        async with w.running(controller(w, project=project)):
            await granted(w)
            line.rules.append(CUT)
            await w.cell.delete(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await w.cell.delete(core.NAMESPACES, w.hub_namespace)
            await until_gone(w.cell, core.NAMESPACES, w.hub_namespace, "")
            await settle()
            assert await left_behind(w) == [compute.FINALIZER_QUOTA_CLAIM]

            line.rules.remove(CUT)

            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
