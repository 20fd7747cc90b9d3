"""Federations with a planted bug.

The bug is planted between a process and its planes: a request is changed, or answered without
being carried out, as if the process had the bug. The product is not changed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, Transport
from tests.support.client.intercepted_transport import InterceptedTransport, Rule
from tests.support.simulation.swarm import SwarmFederation

Bug = Callable[[str, str, HttpRequest], HttpRequest | HttpResponse]
"""Given a process, a plane and a request: what is sent instead, or what is answered."""


def planted(mistake: Bug) -> type[SwarmFederation]:
    """Federations with this bug."""

    class Planted(SwarmFederation):
        def _inner(self, handler: Handler, process: str, plane: str) -> Transport:
            async def carry(request: HttpRequest, forward: Handler) -> HttpResponse:
                instead = mistake(process, plane, request)
                return instead if isinstance(instead, HttpResponse) else await forward(instead)

            return InterceptedTransport(super()._inner(handler, process, plane), [Rule(carry)])

    return Planted


def lets_go(process: str, plane: str, request: HttpRequest) -> HttpRequest | HttpResponse:
    """The federator adds no finalizer to deployments."""
    about = process == "compute-management" and "/workloaddeployments/" in request.path
    if not about or request.method != "PATCH" or plane == "hub":
        return request
    body = msgspec.json.decode(request.body)
    if compute.FINALIZER_FEDERATOR in body.get("metadata", {}).get("finalizers", ()):
        body["metadata"]["finalizers"].remove(compute.FINALIZER_FEDERATOR)
    return replace(request, body=msgspec.json.encode(body))


def forgets_owners(process: str, plane: str, request: HttpRequest) -> HttpRequest | HttpResponse:
    """A cell creates its hub copies without owners."""
    if plane != "hub" or request.method != "POST" or not request.path.endswith("/instances"):
        return request
    body = msgspec.json.decode(request.body)
    body["metadata"].pop("ownerReferences", None)
    return replace(request, body=msgspec.json.encode(body))


def keeps_claims(process: str, plane: str, request: HttpRequest) -> HttpRequest | HttpResponse:
    """A cell releases no claim."""
    about = process.startswith("compute-cell-") and "/resourceclaims/" in request.path
    if not about or request.method != "DELETE":
        return request
    return HttpResponse(200, body=b'{"kind": "Status", "apiVersion": "v1", "status": "Success"}')


def grants_everything(process: str, plane: str, request: HttpRequest) -> HttpRequest | HttpResponse:
    """Quota grants every claim."""
    about = process == "standin-quota" and "/resourceclaims/" in request.path
    if not about or request.method != "PATCH":
        return request
    body = msgspec.json.decode(request.body)
    for each in body["status"].get("allocations") or ():
        if each["status"] == "Denied":
            each.update(status="Granted", reason="QuotaAvailable", allocatedAmount=1)
    for each in body["status"].get("conditions") or ():
        if each["type"] == "Granted":
            each.update(status="True", reason="QuotaAvailable")
    return replace(request, body=msgspec.json.encode(body))


def ends_soaks(process: str, plane: str, request: HttpRequest) -> HttpRequest | HttpResponse:
    """Management records a template as completed when it gives it, so that the next wave opens."""
    about = process == "compute-management" and "/workloaddeployments/" in request.path
    if not about or request.method != "PATCH" or plane == "hub":
        return request
    body = msgspec.json.decode(request.body)
    notes = body.get("metadata", {}).get("annotations") or {}
    if state := notes.get(compute.ANNOTATION_ROLLOUT_STATE):
        notes[compute.ANNOTATION_ROLLOUT_STATE] = state.replace('"outcome":""', '"outcome":"done"')
    return replace(request, body=msgspec.json.encode(body))


def caught_by(
    mistake: Bug, seeds: range, tell: Callable[[int, type[SwarmFederation]], SwarmFederation]
) -> tuple[int, str] | None:
    """The first seed that finds the bug, and its report; None where none does."""
    make = planted(mistake)
    for seed in seeds:
        try:
            tell(seed, make)
        except AssertionError as error:
            return seed, str(error)
    return None
