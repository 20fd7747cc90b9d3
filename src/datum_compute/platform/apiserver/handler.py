"""One request, from the first stage to the last.

The stages, in order, each able to refuse: size, identity, right, plane, kind, verb. A verb
runs to its end without awaiting, unless an admission is to be asked about the kind or somebody
else for lines; then, and only if some write is not on disk yet, the answer waits for the
commit. That holds for refusals too: "already exists" said about an object that a crash then
forgets would be a lie.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from datum_compute.client.transport import Handler, Request, Response, close_stream
from datum_compute.env import Environment
from datum_compute.platform.apiserver import (
    access,
    admission,
    decoding,
    endpoints,
    logs,
    reading,
    reviews,
    routing,
    scaling,
    status,
    watching,
    writing,
)
from datum_compute.platform.apiserver.access import Attributes, Authorizer, User
from datum_compute.platform.apiserver.admission import Admission
from datum_compute.platform.apiserver.calls import Call
from datum_compute.platform.apiserver.kinds import ServedKind
from datum_compute.platform.apiserver.logs import Logs
from datum_compute.platform.apiserver.planes import Plane, Planes
from datum_compute.platform.apiserver.rendering import Renderer
from datum_compute.platform.apiserver.routing import Target
from datum_compute.platform.apiserver.storage import Store, StoreBroken

METRICS_PATH = "/metrics"
"""On the root plane: the numbers of the whole process, for whoever may read everything."""

METRICS_TYPE = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}

LOCAL_PATH = "/local/v1/"
"""Verbs about the local platform itself, outside every plane."""

_log = logging.getLogger(__name__)

_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_PATH_VERBS = {
    "GET": "get",
    "HEAD": "head",
    "POST": "post",
    "PUT": "put",
    "PATCH": "patch",
    "DELETE": "delete",
}
_SUBRESOURCE_VERBS = ("get", "update", "patch")
_SCALE_VERBS = {"get": scaling.get, "update": scaling.update, "patch": scaling.patch}


class RequestHandler:
    """Answers requests on all planes of one store."""

    def __init__(
        self,
        env: Environment,
        store: Store,
        planes: Planes,
        authorizer: Authorizer,
        local: Handler | None,
        admissions: Sequence[Admission] = (),
        metrics: Callable[[], str] | None = None,
        logs: Logs | None = None,
    ) -> None:
        self._env = env
        self._store = store
        self._planes = planes
        self._authorizer = authorizer
        self._local = local
        self._admissions = tuple(admissions)
        self._metrics = metrics
        self._logs = logs

    async def handle(self, request: Request) -> Response:
        """The answer, whatever happens. Only a simulated crash passes through."""
        try:
            if request.path.startswith(LOCAL_PATH):
                return await self._handle_local(request)
            try:
                answer = self._answer(request)
                response = answer if isinstance(answer, Response) else await answer
            except status.ApiError as error:
                response = error.response()
            except status.PathUnknown:
                response = status.NOT_A_PATH
            try:
                await self._store.durable()
            except BaseException:
                # Nobody will read this answer; a watch it opened would stay open for ever.
                await close_stream(response.stream)
                raise
            return response
        except status.ApiError as error:
            return error.response()
        except StoreBroken:
            return status.unavailable("the store has failed; the server must restart").response()
        except Exception:  # noqa: BLE001 - our bug in one request must not end the others
            _log.exception("request failed", extra={"method": request.method})
            return status.internal().response()

    async def _handle_local(self, request: Request) -> Response:
        user = access.authenticate(request.headers, self._store.users)
        if access.MASTERS not in user.groups:
            raise status.forbidden_path(user.name, request.method.lower(), request.path)
        return await self._local(request) if self._local is not None else status.NOT_A_PATH

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        if len(request.body) > decoding.MAX_BODY:
            raise status.too_large(decoding.MAX_BODY)
        user = access.authenticate(request.headers, self._store.users)
        if not request.path.startswith("/"):
            raise status.PathUnknown
        plane_name, path = routing.split_plane(request.path)
        target = routing.parse_target(path)
        review = reviews.respond(path, request, user, plane_name, self._authorizer)
        if review is not None:
            self._plane(plane_name)
            return review
        if target is None:
            return self._answer_path(request, user, plane_name, path)
        query = dict(request.query)
        verb = _verb(request, target, query)
        self._authorize(user, _attributes(verb, plane_name, target))
        plane = self._plane(plane_name)
        if target.subresource == logs.SUBRESOURCE and self._logs is not None:
            kind = _served(plane, msgspec.structs.replace(target, subresource=""), verb)
            if self._logs.concerns(plane, kind):
                call = Call(request, query, user, plane, kind, target, decoding.PLAIN)
                return self._answer_log(self._logs, verb, call)
        kind = _served(plane, target, verb)
        form = decoding.accepted_form(request.headers)
        return self._run(verb, Call(request, query, user, plane, kind, target, form))

    def _answer_log(self, source: Logs, verb: str, call: Call) -> Awaitable[Response]:
        if verb != "get":
            raise _not_allowed()
        return logs.get(source, call, self._env)

    def _answer_path(self, request: Request, user: User, plane_name: str, path: str) -> Response:
        verb = _PATH_VERBS.get(request.method, request.method.lower())
        path = path.rstrip("/") or "/"
        attributes = Attributes(verb, plane_name, path=path)
        if not self._authorizer.allows(user, attributes):
            raise status.forbidden_path(user.name, verb, request.path)
        plane = self._plane(plane_name)
        if request.method != "GET":
            raise status.PathUnknown
        if path == METRICS_PATH and plane_name == routing.ROOT and self._metrics is not None:
            return Response(200, METRICS_TYPE, self._metrics().encode())
        return endpoints.respond(plane, path, request)

    def _authorize(self, user: User, attributes: Attributes) -> None:
        if self._authorizer.allows(user, attributes):
            return
        what = attributes.resource
        if attributes.group:
            what = f"{what}.{attributes.group}"
        if attributes.name:
            what = f'{what} "{attributes.name}"'
        details = {
            "name": attributes.name,
            "group": attributes.group,
            "kind": attributes.resource,
        }
        message = f"{what} is forbidden: {access.denial(user, attributes)}"
        named = {key: value for key, value in details.items() if value}
        raise status.ApiError(403, "Forbidden", message, named)

    def _plane(self, name: str) -> Plane:
        plane = self._planes.get(name)
        if plane is None:
            raise status.PathUnknown
        return plane

    def _run(self, verb: str, call: Call) -> Response | Awaitable[Response]:
        renderer = Renderer(call, self._env.now)
        for whom in self._admissions:
            if whom.concerns(verb, call):  # one at most speaks for a kind
                return self._admit(whom, verb, call, renderer)
        if call.target.subresource == "scale":
            return _SCALE_VERBS[verb](call)
        match verb:
            case "get":
                return reading.get(call, renderer)
            case "list":
                return reading.list_objects(call, renderer, self._store)
            case "watch":
                return watching.watch(call, renderer, self._store, self._env)
            case "create":
                return writing.create(call, renderer)
            case "update":
                return writing.update(call, renderer)
            case "patch":
                return writing.patch(call, renderer)
            case "delete":
                return writing.delete(call, renderer)
            case _:
                return writing.delete_collection(call, renderer, self._store)

    async def _admit(self, whom: Admission, verb: str, call: Call, renderer: Renderer) -> Response:
        return await admission.write(
            whom, verb, call, renderer, self._env, lambda: self._plane(call.plane.name)
        )


def _verb(request: Request, target: Target, query: dict[str, str]) -> str:
    verbs = _OBJECT_VERBS if target.name else _COLLECTION_VERBS
    verb = verbs.get(request.method)
    if verb is None or (target.subresource and verb not in _SUBRESOURCE_VERBS):
        raise _not_allowed()
    if verb == "list" and query.get("watch") in ("true", "1", "True"):
        return "watch"
    return verb


def _not_allowed() -> status.ApiError:
    return status.method_not_allowed(
        "the server does not allow this method on the requested resource"
    )


def _attributes(verb: str, plane: str, target: Target) -> Attributes:
    return Attributes(
        verb,
        plane,
        target.group,
        target.plural,
        target.subresource,
        target.namespace,
        target.name,
    )


def _served(plane: Plane, target: Target, verb: str) -> ServedKind:
    kind = plane.registry.find(target.group, target.version, target.plural)
    if kind is None:
        raise status.PathUnknown
    resource = kind.resource
    if resource.namespaced:
        if target.name and not target.namespace:
            raise status.PathUnknown
    elif target.namespace:
        raise status.PathUnknown
    subresource = target.subresource
    if subresource:
        is_finalize = subresource == "finalize" and resource.kind == "Namespace" and kind.builtin
        has = {"status": kind.has_status, "scale": kind.has_scale}.get(subresource, is_finalize)
        if not has:
            if kind.builtin:
                raise status.PathUnknown
            raise status.not_found(resource, target.name)  # as if the object were missing
    elif verb not in kind.verbs:
        raise _not_allowed()
    return kind
