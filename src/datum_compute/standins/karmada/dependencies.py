"""Dependencies: what a propagated template refers to follows it to its members.

Where a policy says ``propagateDeps`` and a customization has a ``dependencyInterpretation``
script, the binding of a template records what the template depends on. Each of these objects
that exists gets a binding of its own, without a placement: ``requiredBy`` in it names the bindings
that depend on it, with their members, and the object goes to all of them. When a dependency is
dropped or its dependent binding is deleted, the entry is removed; the binding without entries
stays, and targets no member.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import CONFIG_MAPS, SECRETS
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting
from datum_compute.runtime.watches.predicates import content_changed
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_owned
from datum_compute.runtime.writes.patch import Values
from datum_compute.standins.karmada import names, works
from datum_compute.standins.karmada.bindings import binding_of_template, is_attached

DEPENDENCIES = (CONFIG_MAPS, SECRETS)
"""The kinds that templates can depend on. Real Karmada takes any kind that a script names."""

BINDINGS_BY_DEPENDENT = "propagation/dependent"
"""Index of attached bindings by the label that names a dependent binding."""
BINDINGS_BY_DEPENDENCY = "propagation/dependency"
"""Index of bindings by namespace, kind and name of what their templates depend on."""


class _Dependency(msgspec.Struct):
    namespace: str
    kind: str
    name: str


def dependencies_controller(hub: Fleet, kinds: Sequence[Resource], env: Environment) -> Controller:
    reconciler = _Dependencies(hub, kinds, env)
    templates = [Watch(hub, kind, binding_of_template, predicate=content_changed) for kind in kinds]
    return Controller(
        "propagation-dependencies",
        hub,
        reconciler.reconcile,
        watches=[
            Watch.each(
                hub,
                karmada.RESOURCE_BINDINGS,
                predicate=content_changed,
                indexes={
                    BINDINGS_BY_DEPENDENT: _dependents_of,
                    BINDINGS_BY_DEPENDENCY: _dependencies_of,
                },
            ),
            *templates,
            *(
                Watch(hub, kind, reconciler.dependent_bindings, predicate=content_changed)
                for kind in DEPENDENCIES
            ),
        ],
        reads=[Read(hub, karmada.INTERPRETER_CUSTOMIZATIONS)],
    )


def interpret_dependencies(template: Object) -> list[Values]:
    """The rule of our interpreter customization, in Python: the entries of the annotation, each a
    kind and a name in the template's namespace."""
    text = template.metadata.annotations.get(compute.ANNOTATION_EXPECTED_REFERENCED_DATA, "")
    try:
        entries = json.loads(text) if text else []
    except ValueError:
        return []
    found = []
    for entry in entries if isinstance(entries, list) else ():
        kind, _, name = str(entry).partition("/")
        if name and kind in {each.kind for each in DEPENDENCIES}:
            reference = {"apiVersion": "v1", "kind": kind, "namespace": template.namespace}
            found.append({**reference, "name": name})
    return found


def _dependents_of(binding: Object) -> Iterable[str]:
    prefix = karmada.LABEL_DEPENDED_BY_PREFIX
    return [
        f"{binding.namespace}/{key}" for key in binding.metadata.labels if key.startswith(prefix)
    ]


def _dependencies_of(binding: Object) -> Iterable[str]:
    text = binding.metadata.annotations.get(karmada.ANNOTATION_DEPENDENCIES, "[]")
    try:
        recorded = msgspec.json.decode(text, type=list[_Dependency])
    except msgspec.DecodeError:
        return []  # recorded again with the next reconcile
    return [f"{each.namespace}/{each.kind}/{each.name}" for each in recorded]


class _Dependencies:
    def __init__(self, hub: Fleet, kinds: Sequence[Resource], env: Environment) -> None:
        self._hub = hub
        self._kinds = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._env = env

    def dependent_bindings(self, cluster: str, dependency: Object) -> Iterable[Request]:
        hub = self._hub.get(cluster)
        key = f"{dependency.namespace}/{dependency.kind}/{dependency.name}"
        found = (
            hub.cache(karmada.RESOURCE_BINDINGS).by_index(BINDINGS_BY_DEPENDENCY, key)
            if hub is not None
            else []
        )
        return [Request(cluster, each.namespace, each.name) for each in found]

    async def reconcile(self, request: Request) -> Result:
        hub = self._hub.get(request.cluster)
        if hub is None:
            return DONE
        binding = hub.cache(karmada.RESOURCE_BINDINGS).get(request.name, request.namespace)
        wanted: list[Values] = []
        if binding is not None and not binding.metadata.deleting:
            if is_attached(binding):
                return DONE
            interpreted = self._interpret(hub, binding)
            if interpreted is None:
                return DONE
            wanted = interpreted
            binding = await _record(hub, binding, wanted)
        await self._detach(hub, request, {(each["kind"], each["name"]) for each in wanted})
        for reference in wanted:
            resource = next(each for each in DEPENDENCIES if each.kind == reference["kind"])
            dependency = hub.cache(resource).get(reference["name"], reference["namespace"])
            if binding is not None and dependency is not None and not dependency.metadata.deleting:
                await self._attach(hub, binding, resource, dependency)
        return DONE

    def _interpret(self, hub: Cluster, binding: Object) -> list[Values] | None:
        """What the template of a binding depends on; None where that cannot be said now."""
        spec = binding.view(karmada.ResourceBinding).spec
        if not spec.propagate_deps:
            return []
        resource = self._kinds.get((spec.resource.api_version, spec.resource.kind))
        if resource is None:
            return None
        template = hub.cache(resource).get(spec.resource.name, spec.resource.namespace)
        if template is None or template.metadata.uid != spec.resource.uid:
            return None
        if works.customizations_of(hub, resource).dependency_interpretation is None:
            return None
        return interpret_dependencies(template)

    async def _detach(self, hub: Cluster, request: Request, wanted: set[tuple[str, str]]) -> None:
        label = names.depended_by_label(request.namespace, request.name)
        found = hub.cache(karmada.RESOURCE_BINDINGS).by_index(
            BINDINGS_BY_DEPENDENT, f"{request.namespace}/{label}"
        )
        for attached in found:
            resource = attached.view(karmada.ResourceBinding).spec.resource
            if (resource.kind, resource.name) in wanted or attached.metadata.deleting:
                continue
            await patch.ensure_metadata(
                hub.client,
                karmada.RESOURCE_BINDINGS,
                attached,
                labels={label: None},
                spec={"requiredBy": _others(attached, request)},
            )

    async def _attach(
        self, hub: Cluster, binding: Object, resource: Resource, dependency: Object
    ) -> None:
        name = karmada.binding_name(dependency.name, resource.kind)
        attached = hub.cache(karmada.RESOURCE_BINDINGS).get(name, dependency.namespace)
        spec = binding.view(karmada.ResourceBinding).spec
        snapshot = {
            "namespace": binding.namespace,
            "name": binding.name,
            "clusters": [{"name": each.name} for each in spec.clusters],
        }
        label = names.depended_by_label(binding.namespace, binding.name)
        permanent_id = binding.metadata.labels.get(karmada.LABEL_BINDING_ID, "")
        if attached is None:
            if spec.clusters:
                body = self._build(resource, dependency, snapshot, {label: permanent_id})
                body["spec"]["conflictResolution"] = spec.conflict_resolution
                await create_owned(
                    hub.client, karmada.RESOURCE_BINDINGS, body, resource, dependency
                )
            return
        owner = attached.metadata.controller()
        if attached.metadata.deleting or (owner and owner.uid != dependency.metadata.uid):
            raise Waiting(f"binding {name} still belongs to a deleted object", 5.0)
        request = Request("", binding.namespace, binding.name)
        required = [*_others(attached, request), snapshot]
        required.sort(key=_key_of)
        current = patch.values(attached.spec)
        wanted = {"requiredBy": required, "conflictResolution": spec.conflict_resolution}
        await patch.ensure_metadata(
            hub.client,
            karmada.RESOURCE_BINDINGS,
            attached,
            labels={label: permanent_id},
            spec=patch.difference(current, {**current, **wanted}),
        )

    def _build(
        self, resource: Resource, dependency: Object, snapshot: Values, labels: dict[str, str]
    ) -> Values:
        return {
            "metadata": {
                "name": karmada.binding_name(dependency.name, resource.kind),
                "namespace": dependency.namespace,
                "labels": {**labels, karmada.LABEL_BINDING_ID: self._env.new_uid()},
                "finalizers": [karmada.FINALIZER_BINDING],
            },
            "spec": {
                "resource": {
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "namespace": dependency.namespace,
                    "name": dependency.name,
                    "uid": dependency.metadata.uid,
                },
                "requiredBy": [snapshot],
            },
        }


async def _record(hub: Cluster, binding: Object, dependencies: list[Values]) -> Object:
    """Record the dependencies on the binding; one that never had any is left alone."""
    text = json.dumps(dependencies, sort_keys=True) if dependencies else None
    if text is None and karmada.ANNOTATION_DEPENDENCIES not in binding.metadata.annotations:
        return binding
    return await patch.ensure_metadata(
        hub.client,
        karmada.RESOURCE_BINDINGS,
        binding,
        annotations={karmada.ANNOTATION_DEPENDENCIES: text},
    )


def _others(attached: Object, request: Request) -> list[Values]:
    """The entries of ``requiredBy`` that are of other bindings."""
    mine = (request.namespace, request.name)
    found = patch.values(attached.spec).get("requiredBy", [])
    return [each for each in found if _key_of(each) != mine]


def _key_of(entry: Values) -> tuple[str, str]:
    return entry.get("namespace", ""), entry.get("name", "")
