"""PropagationPolicies: what Karmada's webhook does at create, and the release at deletion.

The real system gives a policy its permanent id, its finalizer and the namespace of its
selectors in a mutating webhook, before it is stored; here the controller does so right
afterwards, in one write, and nothing uses a policy before that.

A deleted policy releases what it claimed: its labels and annotations are removed from templates
and bindings. Bindings, Works and the members' objects stay: deleting a policy un-propagates
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from datum_compute.api import karmada
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.writes import patch


def policy_controller(hub: Fleet, kinds: Sequence[Resource], env: Environment) -> Controller:
    policies = karmada.PROPAGATION_POLICIES
    return Controller(
        "propagation-policy",
        hub,
        for_object(hub, policies, _Policies(kinds, env).reconcile, deleting=True),
        watches=[Watch.each(hub, policies)],
        reads=[Read(hub, kind) for kind in (*kinds, karmada.RESOURCE_BINDINGS)],
    )


class _Policies:
    def __init__(self, kinds: Sequence[Resource], env: Environment) -> None:
        self._kinds = kinds
        self._env = env

    async def reconcile(self, hub: Cluster, policy: Object) -> None:
        if policy.metadata.deleting:
            await self._release(hub, policy)
        else:
            await self._admit(hub, policy)

    async def _admit(self, hub: Cluster, policy: Object) -> None:
        permanent_id = policy.metadata.labels.get(karmada.LABEL_POLICY_ID) or self._env.new_uid()
        policy.view(karmada.PropagationPolicy)  # before anything reads its spec
        spec = patch.values(policy.spec)
        selectors = [
            {**selector, "namespace": selector.get("namespace") or policy.namespace}
            for selector in spec.get("resourceSelectors", [])
        ]
        await patch.ensure_metadata(
            hub.client,
            karmada.PROPAGATION_POLICIES,
            policy,
            finalizer=karmada.FINALIZER_POLICY,
            labels={karmada.LABEL_POLICY_ID: permanent_id},
            spec=patch.difference(spec, {**spec, "resourceSelectors": selectors}),
        )

    async def _release(self, hub: Cluster, policy: Object) -> None:
        permanent_id = policy.metadata.labels.get(karmada.LABEL_POLICY_ID)
        for resource in (*self._kinds, karmada.RESOURCE_BINDINGS):
            for obj in hub.cache(resource).list(policy.namespace):
                if (
                    permanent_id
                    and obj.metadata.labels.get(karmada.LABEL_POLICY_ID) == permanent_id
                ):
                    await patch.ensure_metadata(
                        hub.client,
                        resource,
                        obj,
                        labels={karmada.LABEL_POLICY_ID: None},
                        annotations={
                            karmada.ANNOTATION_POLICY_NAMESPACE: None,
                            karmada.ANNOTATION_POLICY_NAME: None,
                        },
                    )
        await patch.release_finalizer(
            hub.client, karmada.PROPAGATION_POLICIES, policy, karmada.FINALIZER_POLICY
        )
