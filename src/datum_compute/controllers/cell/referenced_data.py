"""Whether a cell has the ConfigMaps and Secrets that a template names.

ConfigMaps are watched in the cell, without their content. Secrets are not: only a provider may
read them there, and a right to list them is a right to read them. So the hub is asked whether
Karmada has applied them in this cell. Where nothing is federated there is nothing to wait for:
the provider says what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec

from datum_compute.api import conditions, core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import FALSE, ConditionState
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.controllers.planes import HUB
from datum_compute.decisions.references import (
    CONFIG_MAP,
    SECRET,
    Reference,
    decide_data_condition,
    references_of,
)
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request

_CONFIG_MAPS = core.CONFIG_MAPS.metadata
_SELECTOR = f"{compute.LABEL_REFERENCED_DATA}=true"

ARRIVAL_SECONDS = 1.0
"""How often the hub is asked about a Secret that has not arrived."""
PRESENT_SECONDS = 5.0
"""For how long a Secret that has arrived counts as present without another question, and a hub that
does not answer is not asked again."""
ANSWER_SECONDS = 2.0
"""How long the hub may take: nothing else in the cell waits for it."""


class CellData:
    """The data of one cell; ``hub`` is None where nothing is federated."""

    def __init__(self, hub: Fleet | None, cluster_name: str) -> None:
        self._hub = hub
        self._cluster_name = cluster_name
        self._secrets: dict[tuple[str, str], tuple[bool | None, float]] = {}
        """Whether a Secret has arrived, and until when the hub is not asked again."""

    @property
    def is_federated(self) -> bool:
        return self._hub is not None

    def watches(
        self, cell: Fleet, requests: Callable[[str, str, str], Iterable[Request]]
    ) -> list[Watch]:
        """``requests`` gets a cluster, a namespace and an entry. Not required: a cell without the
        right to list ConfigMaps runs everything that names none."""
        if not self.is_federated:
            return []

        def mapped(cluster: str, obj: Object) -> Iterable[Request]:
            return requests(cluster, obj.namespace, f"{CONFIG_MAP}/{obj.name}")

        return [Watch(cell, _CONFIG_MAPS, mapped, label_selector=_SELECTOR, required=False)]

    async def condition(
        self,
        cell: Cluster,
        deployment: Object,
        references: tuple[Reference, ...],
        current: conditions.Conditions,
        template: Mapping[str, str],
    ) -> ConditionState | None:
        """``ReferencedDataReady`` of what names these; None where there are none. ``current`` are
        the present conditions: they stay while the hub does not answer. ``template`` are the
        annotations of the template."""
        if not references or not self.is_federated:
            return None
        present: set[str] = set()
        unknown: list[Reference] = []
        for each in references:
            found = await self._is_present(cell, deployment.namespace, each)
            if found is None:
                unknown.append(each)
            elif found:
                present.add(each.entry)
        annotations = deployment.metadata.annotations
        assumed = present | {each.entry for each in unknown}
        decided = decide_data_condition(references, annotations, assumed, template)
        if not unknown or decided is None or decided.status != conditions.TRUE:
            return decided
        known = conditions.find(current, compute.CONDITION_REFERENCED_DATA_READY)
        if known is not None and known.status == conditions.TRUE:
            return ConditionState.of(known)
        message = f"{', '.join(map(str, unknown))}: whether it is in the cell is not known now"
        return ConditionState(FALSE, compute.REASON_AWAITING_PROPAGATION, message)

    async def _is_present(self, cell: Cluster, namespace: str, of: Reference) -> bool | None:
        if of.kind == SECRET:
            return await self._has_arrived(namespace, of.name)
        cache = cell.cache(_CONFIG_MAPS, label_selector=_SELECTOR)
        if not cache.synced:
            return None
        found = cache.get(of.name, namespace)
        return found is not None and not found.metadata.deleting

    async def _has_arrived(self, namespace: str, name: str) -> bool | None:
        """Whether Karmada has applied a Secret in this cell; None where the hub does not say."""
        loop = asyncio.get_running_loop()
        arrived, until = self._secrets.get((namespace, name), (None, 0.0))
        if loop.time() < until:
            return arrived
        arrived = await self._ask_hub(namespace, name)
        lasts = ARRIVAL_SECONDS if arrived is False else PRESENT_SECONDS
        self._secrets[namespace, name] = (arrived, loop.time() + lasts)
        return arrived

    async def _ask_hub(self, namespace: str, name: str) -> bool | None:
        hub = self._hub.get(HUB) if self._hub is not None else None
        if hub is None:
            return None
        binding = karmada.binding_name(name, SECRET)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await find_live(hub.client, karmada.RESOURCE_BINDINGS, binding, namespace)
        except (errors.ClientError, TimeoutError):
            return None
        return found is not None and any(
            item.applied and item.cluster_name == self._cluster_name
            for item in found.view(karmada.ResourceBinding).status.aggregated_status
        )


def template_references(deployment: Object) -> tuple[Reference, ...]:
    """What the template of a deployment names. Raises ``Unreadable``."""
    deployment.view(compute.WorkloadDeployment)
    return _template_references(bytes(deployment.spec))


@lru_cache(maxsize=256)  # every reconcile needs it, and it changes only with the spec
def _template_references(spec: bytes) -> tuple[Reference, ...]:
    if not spec:
        return ()
    decoded = msgspec.json.decode(spec, type=compute.WorkloadDeploymentSpec)
    return references_of(decoded.template.spec)
