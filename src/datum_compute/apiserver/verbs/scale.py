"""The subresource ``scale``.

A definition says where in its objects the two replica counts and the selector are. Reading
builds an ``autoscaling/v1`` Scale from those; writing one changes the spec's count in the
object, which is then validated like any other update.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datum_compute.api import fields
from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.kinds.served_kind import FieldSteps, ScalePaths
from datum_compute.apiserver.objects import object_meta
from datum_compute.apiserver.request.body import decode_object
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.verbs import applies, writes
from datum_compute.client.transport import HttpResponse

API_VERSION = "autoscaling/v1"
KIND = "Scale"


def get(call: RequestContext) -> HttpResponse:
    obj = call.plane.writer.read(call.kind, call.existing())
    paths = _paths(call)
    if _found(obj, paths.spec_replicas) is None:
        place = "." + ".".join(paths.spec_replicas)
        why = f'the spec replicas field "{place}" does not exist'
        # The real server's message, and its code for what is the object's fault.
        details = {"causes": [{"message": why}]}
        raise errors.ApiError(500, "InternalError", f"Internal error occurred: {why}", details)
    return _respond(call, _scale_of(obj, paths))


def update(call: RequestContext) -> HttpResponse:
    dry_run = call.dry_run("UpdateOptions")
    call.field_validation("UpdateOptions")
    manager = call.field_manager("UpdateOptions")
    scale = decode_object(call.request.headers, call.request.body)
    return _write(call, scale, manager, dry_run=dry_run)


def patch(call: RequestContext) -> HttpResponse:
    form = writes.patch_type(call)
    dry_run = call.dry_run("PatchOptions")
    call.field_validation("PatchOptions")
    if form == codec.APPLY_PATCH:
        manager, scale = applies.manager_of(call), applies.config_of(call)
        scale["metadata"].setdefault("name", call.target.name)
        return _write(call, scale, manager, dry_run=dry_run, is_apply=True)
    manager = call.field_manager("PatchOptions")
    obj = call.plane.writer.read(call.kind, call.existing())
    scale = writes.apply_patch(
        call, form, _scale_of(obj, _paths(call)), codec.json_value(call.request.body)
    )
    return _write(call, scale, manager, dry_run=dry_run)


def _paths(call: RequestContext) -> ScalePaths:
    assert call.kind.scale is not None, "only kinds with a scale are routed here"
    return call.kind.scale


def _write(
    call: RequestContext,
    scale: dict[str, Any],
    manager: str,
    *,
    dry_run: bool,
    is_apply: bool = False,
) -> HttpResponse:
    before = call.existing()
    found = scale.get("apiVersion"), scale.get("kind")
    if found != (API_VERSION, KIND):
        raise errors.bad_request(
            f"the body is a {found[1]} of {found[0]}; expected {KIND} of {API_VERSION}"
        )
    if not isinstance(scale.get("metadata") or {}, dict):
        raise errors.bad_request("the object's metadata is not an object")
    given: dict[str, Any] = {"metadata": dict(scale.get("metadata") or {})}
    object_meta.check_name(given, call.target.name)
    paths = _paths(call)
    obj = call.plane.writer.read(call.kind, before)
    managed = None
    if is_apply:
        config: dict[str, Any] = {"metadata": {}}
        if scale.get("spec"):
            _put(config, paths.spec_replicas, _replicas(call, scale))
        held = call.plane.store.content(before)[1]
        obj, managed = applies.merged(call, obj, config, held, manager, API_VERSION)
        obj["metadata"] = dict(obj["metadata"])
    else:
        _put(obj, paths.spec_replicas, _replicas(call, scale))
    # Preconditions are the caller's to give; without them any state will do.
    for key in ("resourceVersion", "uid"):
        if given["metadata"].get(key):
            obj["metadata"][key] = given["metadata"][key]
    written = call.plane.writer.replace(
        call.kind,
        before,
        obj,
        dry_run=dry_run,
        manager=manager,
        managed=managed,
        managed_subresource="scale",
    )
    return _respond(call, _scale_of(codec.decode_json(written.raw), paths))


def _replicas(call: RequestContext, scale: Mapping[str, Any]) -> int:
    spec = scale.get("spec") or {}
    replicas = spec.get("replicas") if isinstance(spec, dict) else spec
    if replicas is None:
        return 0
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request(f"spec.replicas: {replicas!r} is not a whole number")
    if replicas < 0:
        place = "." + ".".join(_paths(call).spec_replicas)
        error = fields.invalid(place, replicas, "should be a non-negative integer")
        raise errors.invalid_object(call.kind.resource, call.target.name, [error])
    return replicas


def _scale_of(obj: Mapping[str, Any], paths: ScalePaths) -> dict[str, Any]:
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = obj["metadata"]
    replicas, running = _found(obj, paths.spec_replicas), _found(obj, paths.status_replicas)
    selector = _found(obj, paths.label_selector)
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {key: metadata[key] for key in kept if metadata.get(key)},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": running or 0,
            **({"selector": selector} if isinstance(selector, str) and selector else {}),
        },
    }


def _found(obj: Any, path: FieldSteps) -> Any:
    if not path:
        return None
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _put(obj: dict[str, Any], path: FieldSteps, value: int) -> None:
    for step in path[:-1]:
        below = obj.get(step)
        if not isinstance(below, dict):
            below = obj[step] = {}
        obj = below
    obj[path[-1]] = value


def _respond(call: RequestContext, scale: Mapping[str, Any]) -> HttpResponse:
    raw = codec.encode_json(scale)
    if call.form.yaml:
        return HttpResponse(200, {"content-type": codec.YAML_TYPE}, codec.to_yaml(raw))
    return HttpResponse(200, errors.JSON_HEADERS, raw)
