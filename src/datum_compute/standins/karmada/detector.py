"""The detector: finds for each template the policy that claims it, and keeps its binding.

A template without a policy waits; a new policy is matched against every template of its
namespace, so their order does not matter. A claimed template stays with its policy while that
exists and still selects it. The claim is written on the template; then the binding records
what goes where. Where members fit already, the binding is created with them, saving a write.

Only spec and metadata of a template count. Its status, which returns from the members, changes
often and does not matter here. Nor do bindings: one that is deleted or loses its owner stays so
until its template changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from datum_compute.api import karmada
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.api.selectors import LabelSelector
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.watches.mapping import all_of
from datum_compute.runtime.watches.predicates import content_changed
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_owned
from datum_compute.runtime.writes.ownership import ensure_owner
from datum_compute.runtime.writes.patch import Values
from datum_compute.standins.karmada import names, schedule

PRESERVE = "preserveResourcesOnDeletion"
PROPAGATE_DEPS = "propagateDeps"


def detector_controllers(
    hub: Fleet, kinds: Sequence[Resource], env: Environment
) -> list[Controller]:
    """One per kind, as the real detector has one watch per kind."""
    return [_detector_controller(hub, kind, env) for kind in kinds]


def _detector_controller(hub: Fleet, resource: Resource, env: Environment) -> Controller:
    detector = Detector(resource, env)
    return Controller(
        f"propagation-detector-{resource.plural}",
        hub,
        for_object(hub, resource, detector.reconcile),
        watches=[
            Watch.each(hub, resource, predicate=content_changed),
            Watch(
                hub,
                karmada.PROPAGATION_POLICIES,
                all_of(hub, resource, same_namespace=True),
                predicate=content_changed,
            ),
        ],
        reads=[Read(hub, karmada.CLUSTERS), Read(hub, karmada.RESOURCE_BINDINGS)],
    )


class Detector:
    """The reconcile of one kind of template."""

    def __init__(self, resource: Resource, env: Environment) -> None:
        self._resource = resource
        self._env = env

    async def reconcile(self, hub: Cluster, template: Object) -> None:
        """The binding of a deleted template is garbage collected."""
        if names.is_reserved(template.namespace):
            return
        policy = self._policy_for(hub, template)
        if policy is None:
            return
        template = await patch.ensure_metadata(
            hub.client,
            self._resource,
            template,
            labels=_claim_labels(policy),
            annotations=_claim_annotations(policy),
        )
        await self._ensure_binding(hub, template, policy)

    def _policy_for(self, hub: Cluster, template: Object) -> Object | None:
        policies = hub.cache(karmada.PROPAGATION_POLICIES).list(template.namespace)
        candidates = [
            (policy, specificity)
            for policy in readable(policies, karmada.PropagationPolicy)
            if (specificity := _specificity(policy, template)) and _is_usable(policy)
        ]
        claim = template.metadata.labels.get(karmada.LABEL_POLICY_ID)
        for policy, _ in candidates:
            if claim and policy.metadata.labels[karmada.LABEL_POLICY_ID] == claim:
                return policy
        if not candidates:
            return None
        return min(
            candidates,
            key=lambda found: (
                -found[0].view(karmada.PropagationPolicy).spec.priority,
                -found[1],
                found[0].name,
            ),
        )[0]

    async def _ensure_binding(self, hub: Cluster, template: Object, policy: Object) -> None:
        name = karmada.binding_name(template.name, template.kind)
        binding = hub.cache(karmada.RESOURCE_BINDINGS).get(name, template.namespace)
        if binding is None:
            await self._create_binding(hub, template, policy, name)
            return
        owner = binding.metadata.controller()
        if binding.metadata.deleting or (owner and owner.uid != template.metadata.uid):
            # A template deleted and created again: the old binding must be collected first.
            raise Waiting(f"binding {name} still belongs to a deleted template", 5.0)
        if owner is None:
            # Its template was deleted with its dependents orphaned, and created again. Without
            # an owner the binding would never be collected.
            binding = await ensure_owner(
                hub.client, karmada.RESOURCE_BINDINGS, binding, template, controller=True
            )
        current = patch.values(binding.spec)
        flags = (PRESERVE, PROPAGATE_DEPS)
        kept = {key: value for key, value in current.items() if key not in flags}
        await patch.ensure_metadata(
            hub.client,
            karmada.RESOURCE_BINDINGS,
            binding,
            labels=_claim_labels(policy),
            annotations=_claim_annotations(policy),
            spec=patch.difference(current, {**kept, **_binding_spec(template, policy)}),
        )

    async def _create_binding(
        self, hub: Cluster, template: Object, policy: Object, name: str
    ) -> None:
        spec = _binding_spec(template, policy)
        annotations = _claim_annotations(policy)
        members = schedule.members_of(hub, ())
        placement = schedule.parse_placement(spec["placement"])
        kind = (template.api_version, template.kind)
        if targets := schedule.decide_clusters(placement, kind, members, ()):
            spec["clusters"] = [{"name": target} for target in targets]
            annotations[karmada.ANNOTATION_APPLIED_PLACEMENT] = schedule.placement_text(
                spec["placement"]
            )
        body: Values = {
            "metadata": {
                "name": name,
                "namespace": template.namespace,
                "labels": {
                    **_claim_labels(policy),
                    karmada.LABEL_BINDING_ID: self._env.new_uid(),
                },
                "annotations": annotations,
                "finalizers": [karmada.FINALIZER_BINDING],
            },
            "spec": spec,
        }
        await create_owned(hub.client, karmada.RESOURCE_BINDINGS, body, self._resource, template)


def _binding_spec(template: Object, policy: Object) -> Values:
    spec = patch.values(policy.spec)
    wanted: Values = {
        "resource": {
            "apiVersion": template.api_version,
            "kind": template.kind,
            "namespace": template.namespace,
            "name": template.name,
            "uid": template.metadata.uid,
        },
        "placement": spec.get("placement", {}),
        "schedulerName": spec.get("schedulerName", "default-scheduler"),
        "conflictResolution": spec.get("conflictResolution", "Abort"),
    }
    for flag in (PRESERVE, PROPAGATE_DEPS):
        if spec.get(flag):
            wanted[flag] = True
    return wanted


def _claim_labels(policy: Object) -> dict[str, str]:
    return {karmada.LABEL_POLICY_ID: policy.metadata.labels[karmada.LABEL_POLICY_ID]}


def _claim_annotations(policy: Object) -> dict[str, str]:
    return {
        karmada.ANNOTATION_POLICY_NAMESPACE: policy.namespace,
        karmada.ANNOTATION_POLICY_NAME: policy.name,
    }


def _is_usable(policy: Object) -> bool:
    # Without its permanent id a policy is not admitted yet; that write wakes the detector.
    return karmada.LABEL_POLICY_ID in policy.metadata.labels and not policy.metadata.deleting


def _specificity(policy: Object, template: Object) -> int:
    """How closely the policy selects the template: 3 by name, 2 by labels, 1 by kind, 0 not at
    all."""
    return max(
        (
            _selector_specificity(selector, template)
            for selector in policy.view(karmada.PropagationPolicy).spec.resource_selectors
        ),
        default=0,
    )


def _selector_specificity(selector: karmada.ResourceSelector, template: Object) -> int:
    if (selector.api_version, selector.kind) != (template.api_version, template.kind):
        return 0
    if selector.namespace and selector.namespace != template.namespace:
        return 0
    if selector.name:
        return 3 if selector.name == template.name else 0
    if selector.label_selector is None:
        return 1
    matches = LabelSelector.from_wire(selector.label_selector).matches(template.metadata.labels)
    return 2 if matches else 0
