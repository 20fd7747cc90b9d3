"""PropagationPolicies: what Karmada's webhook does at create, and what happens at the end.

The real system gives a policy its permanent id, its finalizer and the namespace of its
selectors in a mutating webhook, before it is stored; here the controller does so right
afterwards, in one write, and nothing uses a policy before that.

A deleted policy lets go of what it claimed: its marks come off templates and bindings.
Bindings, Works and what members run stay. Nothing is un-propagated because a policy went.
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
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch


def policy_controller(hub: Fleet, kinds: Sequence[Resource], env: Environment) -> Controller:
    reconciler = _Policies(hub, kinds, env)
    return Controller(
        "propagation-policy",
        hub,
        reconciler.reconcile,
        watches=[Watch(hub, karmada.PROPAGATION_POLICIES, itself)],
        reads=[Read(hub, kind) for kind in (*kinds, karmada.RESOURCE_BINDINGS)],
    )


class _Policies:
    def __init__(self, hub: Fleet, kinds: Sequence[Resource], env: Environment) -> None:
        self._hub = hub
        self._kinds = kinds
        self._env = env

    async def reconcile(self, request: Request) -> Result:
        hub = self._hub.get(request.cluster)
        if hub is None:
            return DONE
        policy = hub.cache(karmada.PROPAGATION_POLICIES).get(request.name, request.namespace)
        if policy is None:
            return DONE
        if policy.metadata.deleting:
            await self._let_go(hub, policy)
        else:
            await self._admit(hub, policy)
        return DONE

    async def _admit(self, hub: Cluster, policy: Object) -> None:
        permanent_id = policy.metadata.labels.get(karmada.LABEL_POLICY_ID) or self._env.new_uid()
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

    async def _let_go(self, hub: Cluster, policy: Object) -> None:
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
