"""One request, from the first stage to the last.

The stages, each able to refuse: authentication, limits of the user, size, authorization, plane,
kind, verb. A verb runs without awaiting, except for admission, logs, commands, the deletion of many
objects, and what is too much for the loop, which runs in the worker process. Then, if some write is
not on disk yet, the response waits for the commit. That holds for errors too: "already exists"
would be wrong about an object that a crash undoes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from datum_compute.api import planes
from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.builtin import endpoints, reviews
from datum_compute.apiserver.cel import OverBudget
from datum_compute.apiserver.kinds import builtin_rules, definitions, webhook_configurations
from datum_compute.apiserver.kinds.served_kind import SUBRESOURCE_VERBS, ServedKind
from datum_compute.apiserver.managed_fields.entries import with_entries
from datum_compute.apiserver.objects.planes import Plane, PlaneRegistry
from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request import accept, access, impersonation, routes, webhooks
from datum_compute.apiserver.request.access import Attributes, Authorizer, RequestUser
from datum_compute.apiserver.request.admission import (
    Admission,
    AdmissionRefused,
    AdmissionReviews,
)
from datum_compute.apiserver.request.context import RequestContext, is_true
from datum_compute.apiserver.request.flow_control import SLICE_BYTES, FlowControl, Usage
from datum_compute.apiserver.request.rbac import GROUP as RBAC
from datum_compute.apiserver.request.rbac import MAX_ROLE, Rights
from datum_compute.apiserver.request.routes import ResourcePath
from datum_compute.apiserver.request.tokens import AUDIENCE, ServiceAccountTokens
from datum_compute.apiserver.request.webhooks import WebhookReviews
from datum_compute.apiserver.storage.protocol import (
    HistoryDamaged,
    ObjectDamaged,
    Store,
    StoreBroken,
    StoreFull,
)
from datum_compute.apiserver.verbs import (
    admitted_writes,
    deletes,
    exec,
    logs,
    one_object,
    reads,
    service_account_token,
    watch,
    writes,
)
from datum_compute.apiserver.verbs.exec import ExecSubresource
from datum_compute.apiserver.verbs.logs import LogSubresource
from datum_compute.apiserver.worker import cost
from datum_compute.apiserver.worker.offload import Offload
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, close_stream
from datum_compute.env import Environment
from datum_compute.log import get_logger

METRICS_PATH = "/metrics"
"""On the root plane: the metrics of the whole process."""

METRICS_TYPE = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}

LOCAL_PATH = "/local/v1/"
"""Verbs about the local platform itself, outside every plane."""

OPEN_LOCAL_PATHS = frozenset({"/local/v1/console"})
"""Those that every user may call; the others are for administrators."""

_log = get_logger(__name__)

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
_HEALTH = ("/healthz", "/livez", "/readyz")
_DISCOVERY = ("/api", "/api/v1", "/apis", "/version")
_OWN_GROUPS = frozenset(
    {*definitions.BUILTIN_NAMES, "authentication.k8s.io", "authorization.k8s.io"}
)

_FULL = (
    "the disk of the server is full; it serves again when there is room, and changes that it has"
    " begun are stored then"
)


class RequestHandler:
    """Answers requests on all planes of one store."""

    def __init__(
        self,
        env: Environment,
        store: Store,
        planes: PlaneRegistry,
        authorizer: Authorizer,
        local: Handler | None,
        admissions: Sequence[Admission] = (),
        metrics: Callable[[], str] | None = None,
        logs: LogSubresource | None = None,
        commands: ExecSubresource | None = None,
        worker: WorkerProcess | None = None,
        *,
        tokens: ServiceAccountTokens,
    ) -> None:
        self._env = env
        self._store = store
        self._planes = planes
        self._rights = Rights(authorizer, store)
        self._tokens = tokens
        self._users = access.StoredUsers()
        self._local = local
        self._admissions = tuple(admissions)
        self._metrics = metrics
        self._logs = logs
        self._commands = commands
        self._flow = FlowControl()
        self._offload = Offload(worker, env, self._plane) if worker is not None else None

    def answer_now(self, request: HttpRequest) -> HttpResponse | None:
        """The stored bytes of one object, where the request asks for just that and nothing need be
        awaited. None for any other request, and for one that is refused: :meth:`handle` says
        why."""
        if request.method != "GET" or request.query or not self._store.is_durable:
            return None
        route = routes.resolve(request.path)
        target = route.target
        if target is None or not target.name or target.subresource:
            return None
        try:
            user = self._authenticate(request)
            if user is access.ANONYMOUS or impersonation.is_asked(request.headers):
                return None
            usage = self._flow.of(user)
            usage.check_request()
            self._authorize(user, _attributes("get", route.plane, target))
            plane = self._plane(route.plane)
            kind = _served(plane, target, "get")
            if not kind.is_plain or accept.accepted_form(request.headers) is not accept.PLAIN:
                return None
            stored = plane.store.get((kind.stored_as, target.namespace, target.name))
            if stored is None or stored.api_version != kind.resource.api_version:
                return None
            if plane.writer.lacks_defaults(kind, stored):
                return None
            body = with_entries(*plane.store.content(stored))
        except Exception:  # noqa: BLE001 - it is raised again where it is answered
            return None
        response = HttpResponse(200, errors.JSON_HEADERS, body)
        return _counted(response, usage) if len(body) > SLICE_BYTES else response

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """The response, whatever happens. Only a simulated crash is raised."""
        try:
            if request.path.startswith(LOCAL_PATH):
                return await self._handle_local(request)
            user = self._authenticate(request)
            usage = self._flow.of(user)
            if user is access.ANONYMOUS or request.path.endswith(_HEALTH):
                return await self._respond(request, user, usage)
            usage.begin_request()
            try:
                response = await self._respond(request, user, usage)
            finally:
                usage.end_request()
            return _counted(response, usage) if len(response.body) > SLICE_BYTES else response
        except errors.ApiError as error:
            return error.response()
        except ObjectDamaged as error:
            _log.error("a stored object is damaged", path=request.path, version=str(error))
            return errors.internal(f"the stored object {error} is damaged").response()
        except HistoryDamaged as error:
            # The client lists the current objects again.
            _log.error("stored history is damaged", path=request.path, version=str(error))
            return errors.expired(f"the history is damaged: {error}").response()
        except StoreBroken:
            return errors.unavailable("the store has failed; the server must restart").response()
        except StoreFull:
            return errors.unavailable(_FULL).response()
        except Exception:  # noqa: BLE001 - our bug in one request must not end the others
            _log.exception("request failed", method=request.method, path=request.path)
            return errors.internal().response()

    async def _respond(self, request: HttpRequest, user: RequestUser, usage: Usage) -> HttpResponse:
        try:
            found = self._route(request, user, usage)
            response = found if isinstance(found, HttpResponse) else await found
        except errors.ApiError as error:
            response = error.response()
        except errors.PathNotFound:
            response = self._not_found(request.path)
        try:
            await self._store.wait_durable()
        except BaseException:
            # The response is not sent; a watch it opened would stay open.
            await close_stream(response.stream)
            raise
        return response

    def _not_found(self, path: str) -> HttpResponse:
        """In plain text, except below the groups of the server's own kinds."""
        route = routes.resolve(path)
        _, first, *rest = [*route.path.split("/"), ""]
        is_own = (first == "api" and rest[0]) or (
            first == "apis" and len(rest) > 2 and rest[0] in _OWN_GROUPS
        )
        if is_own and self._planes.get(route.plane) is not None:
            return errors.path_not_found().response()
        return errors.PATH_NOT_FOUND

    async def _handle_local(self, request: HttpRequest) -> HttpResponse:
        user = self._authenticate(request)
        if impersonation.is_asked(request.headers):
            raise errors.no_impersonation(user.name)
        is_open = request.path in OPEN_LOCAL_PATHS and user is not access.ANONYMOUS
        if access.MASTERS not in user.groups and not is_open:
            raise errors.forbidden_path(user.name, request.method.lower(), request.path)
        return await self._local(request) if self._local is not None else errors.PATH_NOT_FOUND

    def _authenticate(self, request: HttpRequest) -> RequestUser:
        return access.authenticate(
            request.headers, lambda token: self._user_of(request.path, token, AUDIENCE)
        )

    def _user_of(self, path: str, token: str, audience: str) -> RequestUser | None:
        """The user of a token on the plane of a path."""
        known = self._users.find(token, self._store.users) if audience == AUDIENCE else None
        return known or self._tokens.user(token, routes.resolve(path).plane, audience)

    def _route(
        self, request: HttpRequest, user: RequestUser, usage: Usage
    ) -> HttpResponse | Awaitable[HttpResponse]:
        if len(request.body) > codec.MAX_BODY:
            raise errors.too_large(codec.MAX_BODY)
        if not request.path.startswith("/"):
            raise errors.PathNotFound
        route = routes.resolve(request.path)
        plane_name, target = route.plane, route.target
        user = impersonation.acting_user(request.headers, user, plane_name, self._rights.allows)
        if target is None:
            return self._get_path(request, user, plane_name, route.path)
        if review := reviews.kind_of(target):
            user_of = partial(self._user_of, request.path)
            answer = reviews.respond(
                review, target, request, user, plane_name, self._rights, user_of
            )
            self._plane(plane_name)
            return answer
        query = dict(reversed(request.query))  # of a parameter given twice the first counts
        verb = _verb(request, target, query)
        if "timeout" in query and verb != "watch":
            _check_timeout(query["timeout"])
        self._authorize(user, _attributes(verb, plane_name, target))
        plane = self._plane(plane_name)
        if target.subresource == service_account_token.SUBRESOURCE:
            kind = _served(plane, msgspec.structs.replace(target, subresource=""), "get")
            call = RequestContext(request, query, user, plane, kind, target, accept.PLAIN, usage)
            return service_account_token.create(call, self._tokens)
        if target.subresource in (logs.SUBRESOURCE, exec.SUBRESOURCE):
            kind = _served(plane, msgspec.structs.replace(target, subresource=""), "get")
            form = accept.PLAIN
            call = RequestContext(request, query, user, plane, kind, target, form, usage)
            if (found := self._of_runtime(verb, call)) is not None:
                return found
        kind = _served(plane, target, verb)
        if kind.resource.group == RBAC and len(request.body) > MAX_ROLE:
            raise errors.too_large(MAX_ROLE)
        _check_protected(user, verb, plane, target)
        form = accept.accepted_form(request.headers)
        if form.transform:
            accept.check_form(form, verb)
        call = RequestContext(
            request, query, user, plane, kind, target, form, usage, self._rights.check_grant
        )
        if verb == "update" and kind.created_by_update and call.current() is None:
            self._authorize(user, _attributes("create", plane_name, target))
        response = self._run(verb, call)
        return response if not kind.deprecation else _deprecated(response, kind.deprecation)

    def _of_runtime(self, verb: str, call: RequestContext) -> Awaitable[HttpResponse] | None:
        """What the runtime behind an object answers, where the object has one."""
        asked, (plane, kind) = call.target.subresource, (call.plane, call.kind)
        if asked == logs.SUBRESOURCE and self._logs is not None and self._logs.matches(plane, kind):
            if verb != "get":
                raise errors.method_not_allowed()
            return logs.get(self._logs, call, self._env)
        commands = self._commands
        if asked == exec.SUBRESOURCE and commands is not None and commands.matches(plane, kind):
            if verb != "create":
                raise errors.method_not_allowed()
            return exec.start(commands, call)
        return None

    def _get_path(
        self, request: HttpRequest, user: RequestUser, plane_name: str, path: str
    ) -> HttpResponse:
        verb = _PATH_VERBS.get(request.method, request.method.lower())
        path = path.rstrip("/") or "/"
        attributes = Attributes(verb, plane_name, path=path)
        if not self._rights.allows(user, attributes):
            raise errors.forbidden_path(user.name, verb, request.path)
        plane = self._plane(plane_name)
        is_head = request.method == "HEAD" and path.startswith(_HEALTH)
        if request.method != "GET" and not is_head:
            if path in _DISCOVERY or path.removeprefix("/apis/").partition("/")[0] in _OWN_GROUPS:
                raise errors.method_not_allowed()
            raise errors.PathNotFound
        if path == METRICS_PATH and plane_name == planes.ROOT.name and self._metrics is not None:
            return HttpResponse(200, METRICS_TYPE, self._metrics().encode())
        return endpoints.respond(plane, path, request)

    def _authorize(self, user: RequestUser, attributes: Attributes) -> None:
        if not self._rights.allows(user, attributes):
            raise access.forbidden(user, attributes)

    def _plane(self, name: str) -> Plane:
        plane = self._planes.get(name)
        if plane is None:
            raise errors.PathNotFound
        return plane

    def _run(self, verb: str, call: RequestContext) -> HttpResponse | Awaitable[HttpResponse]:
        renderer = Renderer(call, self._env.now)
        if verb == "get":
            reads.check_revision(call)
        is_heavy = self._offload is not None and cost.is_heavy(verb, call)
        for admission in self._admissions:
            if admission.matches(verb, call):  # a kind has one at most
                reviews = AdmissionReviews(admission, call, self._env)
                return self._admit(reviews, verb, call, renderer, is_heavy=is_heavy)
        if hooks := webhooks.reviews_of(verb, call, self._env):
            if verb in ("delete", "deletecollection"):
                return self._admit_delete(hooks, verb, call, renderer)
            return self._admit(hooks, verb, call, renderer, is_heavy=is_heavy)
        return self._run_admitted(verb, call, renderer, is_heavy=is_heavy)

    def _run_admitted(
        self, verb: str, call: RequestContext, renderer: Renderer, *, is_heavy: bool
    ) -> HttpResponse | Awaitable[HttpResponse]:
        if is_heavy and self._offload is not None:
            return self._offload.run(verb, call)
        match verb:
            case "list":
                return reads.list_objects(call, renderer, self._store)
            case "watch":
                return watch.watch(call, renderer, self._store, self._env)
            case "deletecollection":
                return deletes.delete_collection(call, renderer, self._store)
            case _:
                return self._run_one(verb, call, renderer)

    def _run_one(
        self, verb: str, call: RequestContext, renderer: Renderer
    ) -> HttpResponse | Awaitable[HttpResponse]:
        try:
            return one_object.run(verb, call, renderer)
        except OverBudget:  # nothing is stored before the rules of its definition have run
            if self._offload is not None:
                return self._offload.run(verb, call)
            with call.plane.writer.unhurried():
                return one_object.run(verb, call, renderer)

    async def _admit(
        self,
        reviews: admitted_writes.Reviews,
        verb: str,
        call: RequestContext,
        renderer: Renderer,
        *,
        is_heavy: bool,
    ) -> HttpResponse:
        return await admitted_writes.write(
            reviews,
            verb,
            call,
            renderer,
            lambda: self._plane(call.plane.name),
            self._offload.try_write if self._offload is not None else None,
            is_heavy=is_heavy,
        )

    async def _admit_delete(
        self, hooks: WebhookReviews, verb: str, call: RequestContext, renderer: Renderer
    ) -> HttpResponse:
        """One refusal refuses the whole request: nothing is deleted before all are reviewed."""
        rows = [call.existing()] if verb == "delete" else list(call.table.in_order(call.namespace))
        dry_run = call.dry_run("DeleteOptions")
        try:
            for row in rows:
                await hooks.admit_delete(row, dry_run=dry_run)
        except AdmissionRefused as refused:
            return writes.with_warnings(refused.error.response(), hooks.warnings)
        if self._plane(call.plane.name) is not call.plane:
            raise errors.PathNotFound
        found = self._run_admitted(verb, call, renderer, is_heavy=False)
        response = found if isinstance(found, HttpResponse) else await found
        return writes.with_warnings(response, hooks.warnings)


async def _deprecated(found: HttpResponse | Awaitable[HttpResponse], warning: str) -> HttpResponse:
    response = found if isinstance(found, HttpResponse) else await found
    return writes.with_warnings(response, [warning])


def _counted(response: HttpResponse, usage: Usage) -> HttpResponse:
    """The response, counted for its user until the client has taken it."""
    size = len(response.body)
    usage.response_bytes += size

    def taken() -> None:
        usage.response_bytes -= size

    return msgspec.structs.replace(response, taken=taken)


def _verb(request: HttpRequest, target: ResourcePath, query: dict[str, str]) -> str:
    if target.subresource == exec.SUBRESOURCE and request.method in ("GET", "POST"):
        return "create"  # a WebSocket begins with GET, and whoever may read must not run commands
    if target.subresource == service_account_token.SUBRESOURCE and request.method == "POST":
        return "create"
    verbs = _OBJECT_VERBS if target.name else _COLLECTION_VERBS
    verb = verbs.get(request.method)
    if verb is None or (target.subresource and verb not in SUBRESOURCE_VERBS):
        raise errors.method_not_allowed()
    if verb == "list" and is_true(query, "watch"):
        return "watch"
    return verb


def _check_protected(user: RequestUser, verb: str, plane: Plane, target: ResourcePath) -> None:
    """Raises 403 for a user who would change what the platform itself depends on, or make the
    server call an address of their choice."""
    if target.group == webhook_configurations.GROUP and verb in ("create", *_CHANGES):
        if access.MASTERS not in user.groups:
            kind = _served(plane, target, "get")
            why = f"only members of {access.MASTERS} may configure webhooks: the server calls them"
            raise errors.forbidden(kind.resource, target.name, why)
        return
    if (
        (target.group, target.plural) != _DEFINITIONS
        or verb not in _CHANGES
        or access.MASTERS in user.groups
    ):
        return
    if target.name in plane.own_definitions or (verb == "deletecollection"):
        kind = plane.registry.builtin(builtin_rules.CRDS)
        why = (
            "the platform needs this definition, so only members of"
            f" {access.MASTERS} may change or delete it"
        )
        raise errors.forbidden(kind.resource, target.name, why)


_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
_CHANGES = ("update", "patch", "delete", "deletecollection")


def _check_timeout(text: str) -> None:
    """No request takes long, so that the value does not matter."""
    if text and not _is_duration(text):
        raise errors.bad_request("invalid timeout specified in the request URL")


_is_duration = re.compile(
    r"[-+]?(?:0|(?:(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?:ns|us|ms|s|m|h)){1,6})"
).fullmatch
"""Of Go, in which a number without a unit is none."""


def _attributes(verb: str, plane: str, target: ResourcePath) -> Attributes:
    return Attributes(
        verb,
        plane,
        target.group,
        target.plural,
        target.subresource,
        target.namespace,
        target.name,
    )


def _served(plane: Plane, target: ResourcePath, verb: str) -> ServedKind:
    kind = plane.registry.find(target.group, target.version, target.plural)
    if kind is None:
        raise errors.PathNotFound
    resource = kind.resource
    if resource.namespaced:
        if target.name and not target.namespace:
            raise errors.PathNotFound
        if verb == "deletecollection" and not target.namespace:
            # One request deletes in one namespace.
            raise errors.method_not_allowed() if kind.builtin else errors.PathNotFound
    elif target.namespace:
        raise errors.PathNotFound
    subresource = target.subresource
    if subresource:
        is_finalize = subresource == "finalize" and resource.kind == "Namespace" and kind.builtin
        has = {"status": kind.has_status, "scale": kind.has_scale}.get(subresource, is_finalize)
        if not has:
            if kind.builtin:
                raise errors.PathNotFound
            raise errors.not_found(resource, target.name)  # as if the object were missing
    elif verb not in kind.verbs:
        raise errors.method_not_allowed()
    return kind
