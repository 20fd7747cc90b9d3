"""Webhook configurations: which webhooks review a write, and how they are asked.

Mutating webhooks are asked one after the other, validating ones together, all with an
AdmissionReview over HTTPS. A webhook that fails refuses the write, or is left out, as its
``failurePolicy`` says. All of one request have :data:`TOTAL_SECONDS`.

Never reviewed, so that no configuration keeps the platform from working or itself from being
corrected: see :func:`is_exempt`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from datum_compute.api.selectors import LabelSelector
from datum_compute.apiserver import cel, errors
from datum_compute.apiserver.codec import MAX_VALUES, decode_json, encode_json, values_in
from datum_compute.apiserver.kinds import builtin_rules
from datum_compute.apiserver.kinds.webhook_configurations import (
    CONDITION_VARIABLES,
    MUTATING,
    VALIDATING,
)
from datum_compute.apiserver.request import admission
from datum_compute.apiserver.request.access import CONTROLLERS
from datum_compute.apiserver.request.admission import AdmissionRefused
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import PlaneStore, StoredObject
from datum_compute.client.errors import ClientError, TimedOut
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.transport import HttpRequest
from datum_compute.env import Environment

TOTAL_SECONDS = 30.0
"""For all webhooks of one request: as long as one of them may take."""
CONDITION_STEPS = 250_000
"""Of all match conditions of one request: some 10 ms."""
MAX_ANSWER = 3 * 1024 * 1024

Hook = dict[str, Any]
Ask = Callable[[str, bytes, bytes, float], Awaitable[bytes]]
"""Sends a body to a URL whose certificate a bundle has signed, within seconds."""
Complete = Callable[[dict[str, Any]], dict[str, Any]]
"""Defaults and validates an object, as storing it would."""

_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
_OPERATIONS["deletecollection"] = "DELETE"
_EXEMPT = frozenset(
    {
        builtin_rules.NAMESPACES,
        builtin_rules.CRDS,
        builtin_rules.EVENTS,
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
        MUTATING,
        VALIDATING,
    }
)


def is_exempt(call: RequestContext) -> bool:
    """Kinds that the platform has put on the plane, namespaces, definitions, Leases, Events, the
    configurations themselves, and all that the platform's controllers write."""
    resource = call.kind.resource.group_resource
    return (
        resource in _EXEMPT
        or resource in call.plane.own_definitions
        or CONTROLLERS in call.user.groups
    )


async def ask_by_https(url: str, bundle: bytes, body: bytes, seconds: float) -> bytes:
    parts = urlsplit(url)
    transport = HttpTransport(f"https://{parts.netloc}", ca_pem=bundle, max_body=MAX_ANSWER)
    headers = {"content-type": "application/json", "accept": "application/json"}
    query = (("timeout", f"{seconds:g}s"),)
    request = HttpRequest("POST", parts.path or "/", query, headers, body)
    try:
        response = await transport.send(request, timeout=seconds)
    finally:
        await transport.close()
    if response.status != 200:
        raise ValueError(f"the server answered with {response.status}")
    return response.body


def reviews_of(verb: str, call: RequestContext, env: Environment) -> WebhookReviews | None:
    """Those of one request; None where no webhook reviews it, as most often."""
    table = call.plane.store.table
    if verb not in _OPERATIONS:
        return None
    if not (table(MUTATING).has_objects(None) or table(VALIDATING).has_objects(None)):
        _decoded.pop(call.plane.store, None)
        return None
    found = WebhookReviews(verb, call, env)
    return found if found else None


class WebhookReviews:
    """The webhooks that review one request."""

    def __init__(
        self, verb: str, call: RequestContext, env: Environment, ask: Ask = ask_by_https
    ) -> None:
        self._call = call
        self._env = env
        self._ask = ask
        self._operation = _OPERATIONS.get(verb, "")
        if (
            self._operation == "UPDATE"
            and call.table.get(call.target.namespace, call.target.name) is None
        ):
            self._operation = "CREATE"  # an apply, or an update that may create
        self.warnings: list[str] = []
        self._budget = cel.Budget(CONDITION_STEPS)
        is_asked = bool(self._operation) and not is_exempt(call)
        is_asked &= call.target.subresource != "scale"  # a Scale is no object that is stored
        self._mutating = list(self._matching(MUTATING)) if is_asked else []
        self._validating = list(self._matching(VALIDATING)) if is_asked else []

    def __bool__(self) -> bool:
        return bool(self._mutating or self._validating)

    def _matching(self, resource: str) -> Iterator[Hook]:
        for hook in _hooks(self._call.plane.store, resource):
            if self._served_version(hook):
                yield hook

    def _served_version(self, hook: Hook) -> str:
        """The version in which the webhook takes the object; empty if it does not."""
        resource, target = self._call.kind.resource, self._call.target
        name = f"{resource.plural}/{target.subresource}".rstrip("/")
        for rule in hook.get("rules") or ():
            if (
                not {"*", self._operation} & set(rule["operations"])
                or not {"*", resource.group} & set(rule["apiGroups"])
                or not any(_names(one, name) for one in rule["resources"])
                or rule["scope"] not in ("*", "Namespaced" if resource.namespaced else "Cluster")
            ):
                continue
            versions: list[str] = rule["apiVersions"]
            if "*" in versions or resource.version in versions:
                return resource.version
            if hook["matchPolicy"] == "Equivalent":
                find = self._call.plane.registry.find
                for version in versions:
                    if find(resource.group, version, resource.plural) is not None:
                        return version
        return ""

    async def admit(
        self,
        obj: dict[str, Any],
        before: StoredObject | None,
        *,
        dry_run: bool,
        complete: Complete,
    ) -> dict[str, Any]:
        """The object as it may be stored instead of ``before``. Raises AdmissionRefused, and what
        ``complete`` raises."""
        self.warnings = []
        old = self._read(before)
        async with _within_time():
            changed = await self._mutate(obj, old, dry_run=dry_run)
            if changed is not obj:
                if values_in(encode_json(changed)) > MAX_VALUES:
                    why = f"webhooks make it an object of more than {MAX_VALUES} values"
                    raise AdmissionRefused(errors.bad_request(why))
                changed = complete(changed)
            await self._validate(changed, old, dry_run=dry_run)
        return changed

    async def admit_delete(self, before: StoredObject, *, dry_run: bool) -> None:
        """Raises AdmissionRefused."""
        old = self._read(before)
        async with _within_time():
            for hook in self._mutating:
                await self._review(hook, None, old, dry_run=dry_run)
            await self._validate(None, old, dry_run=dry_run)

    def _read(self, before: StoredObject | None) -> dict[str, Any] | None:
        return None if before is None else self._call.plane.writer.read(self._call.kind, before)

    async def _mutate(
        self, obj: dict[str, Any], old: dict[str, Any] | None, *, dry_run: bool
    ) -> dict[str, Any]:
        last: dict[int, dict[str, Any]] = {}
        for hook in self._mutating:
            obj = last[id(hook)] = await self._review(hook, obj, old, dry_run=dry_run) or obj
        # Once more for those that want to see what others have changed after them.
        for hook in self._mutating:
            if hook["reinvocationPolicy"] == "IfNeeded" and obj != last[id(hook)]:
                obj = await self._review(hook, obj, old, dry_run=dry_run) or obj
        return obj

    async def _validate(
        self, obj: dict[str, Any] | None, old: dict[str, Any] | None, *, dry_run: bool
    ) -> None:
        reviews = [self._review(hook, obj, old, dry_run=dry_run) for hook in self._validating]
        for found in await asyncio.gather(*reviews, return_exceptions=True):
            if isinstance(found, BaseException):
                raise found

    async def _review(
        self, hook: Hook, obj: dict[str, Any] | None, old: dict[str, Any] | None, *, dry_run: bool
    ) -> dict[str, Any] | None:
        """What the webhook makes of the object; None if it changes nothing."""
        name = hook["name"]
        request = self._request(hook, obj, old, dry_run)
        if not self._selects(hook, obj, old) or not self._meets_conditions(hook, request):
            return None
        if dry_run and hook["sideEffects"] not in ("None", "NoneOnDryRun"):
            why = f'admission webhook "{name}" does not support dry run'
            raise AdmissionRefused(errors.bad_request(why))
        try:
            response = await self._send(hook, request)
        except (ClientError, OSError, ValueError, LookupError, TypeError) as error:
            if hook["failurePolicy"] == "Ignore":
                self.warnings.append(f'failed calling webhook "{name}", failing open: {error}')
                return None
            raise AdmissionRefused(_failed(hook, error)) from error
        self.warnings += [str(one) for one in response.get("warnings") or ()]
        if response["allowed"] is not True:
            raise AdmissionRefused(admission.denied(name, response.get("status") or {}))
        if obj is None or not response.get("patch"):
            return None
        patched = admission.patched({**request["object"]}, response, name)
        return {**patched, "apiVersion": obj["apiVersion"]}

    async def _send(self, hook: Hook, request: dict[str, Any]) -> dict[str, Any]:
        review = {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": request,
        }
        client, seconds = hook["clientConfig"], float(hook["timeoutSeconds"])
        bundle = base64.b64decode(client.get("caBundle") or "")
        async with asyncio.timeout(seconds + 1):
            answer = decode_json(
                await self._ask(client["url"], bundle, encode_json(review), seconds)
            )
        response: dict[str, Any] = answer["response"]
        if response.get("uid") != request["uid"]:
            raise ValueError(
                f"expected response.uid={request['uid']!r}, got {response.get('uid')!r}"
            )
        if not isinstance(response["allowed"], bool):
            raise ValueError("response.allowed is no boolean")
        if response.get("patch") and response.get("patchType") != "JSONPatch":
            raise ValueError("webhook returned response.patch but not response.patchType=JSONPatch")
        if values_in(base64.b64decode(response.get("patch") or "", validate=True)) > MAX_VALUES:
            raise ValueError(f"the patch has more than {MAX_VALUES} values")
        return response

    def _request(
        self, hook: Hook, obj: dict[str, Any] | None, old: dict[str, Any] | None, dry_run: bool
    ) -> dict[str, Any]:
        call, resource = self._call, self._call.kind.resource
        version = self._served_version(hook)
        asked = resource._replace(version=version)
        shown, below = obj or old or {}, call.target.subresource
        texts = {
            "name": shown["metadata"].get("name", ""),
            "namespace": call.target.namespace,
            "subResource": below,
            "requestSubResource": below,
        }
        return {
            "uid": self._env.new_uid(),
            **admission.kind_of(asked, ""),
            **admission.kind_of(resource, "request"),
            # Clients tell an empty text from none.
            **{key: text for key, text in texts.items() if text},
            "operation": self._operation,
            "userInfo": admission.user_info(call.user, call.plane.name),
            "object": obj and {**obj, "apiVersion": asked.api_version},
            "oldObject": old and {**old, "apiVersion": asked.api_version},
            "dryRun": dry_run,
            "options": {
                "kind": f"{self._operation.title()}Options",
                "apiVersion": "meta.k8s.io/v1",
            },
        }

    def _selects(self, hook: Hook, obj: dict[str, Any] | None, old: dict[str, Any] | None) -> bool:
        call = self._call
        if call.target.namespace:
            row = call.plane.store.get((builtin_rules.NAMESPACES, "", call.target.namespace))
            labels = row.labels if row is not None else {}
            if not LabelSelector.from_wire(hook["namespaceSelector"]).matches(labels):
                return False
        wanted = LabelSelector.from_wire(hook["objectSelector"])
        return any(wanted.matches(one["metadata"].get("labels") or {}) for one in (obj, old) if one)

    def _meets_conditions(self, hook: Hook, request: dict[str, Any]) -> bool:
        values = {"object": request["object"], "oldObject": request["oldObject"]}
        values["request"] = {key: value for key, value in request.items() if key not in values}
        failure: Exception | None = None
        for condition in hook.get("matchConditions") or ():
            try:
                program = _condition(condition["expression"])
                if program.evaluate(values, self._budget) is not True:
                    return False
            except (cel.CelError, cel.OverBudget, cel.CompileError) as error:
                failure = error
        if failure is None:
            return True
        if hook["failurePolicy"] == "Ignore":
            return False
        why = f"admission webhook {hook['name']!r} has a match condition that failed: {failure}"
        resource = self._call.kind.resource
        raise AdmissionRefused(errors.forbidden(resource, request.get("name", ""), why))


@asynccontextmanager
async def _within_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            yield
    except TimeoutError:
        message = f"the webhooks of the request take more than {TOTAL_SECONDS:g} s"
        raise AdmissionRefused(errors.ApiError(504, "Timeout", message)) from None


_Decoded = dict[str, tuple[int, list[Hook]]]
_decoded: WeakKeyDictionary[PlaneStore, dict[str, _Decoded]] = WeakKeyDictionary()
"""The webhooks of the configurations that a plane has, with the revision, by uid: they are needed
at every write, and a large one must not stay in memory after its deletion."""


def _hooks(store: PlaneStore, resource: str) -> Iterator[Hook]:
    rows = list(store.table(resource).in_order(None))
    known = _decoded.get(store)
    before = known.pop(resource, {}) if known else {}
    if not rows:
        return
    now = {
        row.uid: held
        if (held := before.get(row.uid)) is not None and held[0] == row.revision
        else (row.revision, _decode_hooks(store.value(row)))
        for row in rows
    }
    _decoded.setdefault(store, {})[resource] = now
    for _, hooks in now.values():
        yield from hooks


def _decode_hooks(raw: bytes) -> list[Hook]:
    with suppress(ValueError):
        return list(decode_json(raw).get("webhooks") or ())
    return []


@lru_cache(maxsize=256)
def _condition(text: str) -> cel.CelProgram:
    return cel.compile_expression(text, CONDITION_VARIABLES)


def _names(rule: str, resource: str) -> bool:
    """``*`` is every resource without its subresources; ``a/*`` and ``*/b`` are as they look."""
    if rule in ("*/*", resource):
        return True
    name, _, subresource = resource.partition("/")
    wanted, slash, below = rule.partition("/")
    if not slash:
        return not subresource and wanted == "*"
    return wanted in ("*", name) and (below == "*" or (bool(below) and below == subresource))


def _failed(hook: Hook, error: Exception) -> errors.ApiError:
    url, seconds = hook["clientConfig"].get("url", ""), hook["timeoutSeconds"]
    why = "context deadline exceeded" if isinstance(error, TimedOut | TimeoutError) else str(error)
    name = hook["name"]
    post = f'failed to call webhook: Post "{url}?timeout={seconds}s": {why}'
    return errors.internal(f'failed calling webhook "{name}": {post}')
