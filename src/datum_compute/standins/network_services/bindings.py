"""NetworkBindings and NetworkContexts: a network's presence at a location, created on demand.

A binding requests a network at a location. The network must exist in the cell itself; then its
context for that location is created, in the network's namespace and controlled by the network.
The context is programmed at once, since there is no hardware here, and then the binding is
ready.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.mapping import by_index
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.runtime.writes.create import create_owned

BINDINGS_BY_NETWORK = "network/network"
BINDINGS_BY_CONTEXT = "network/context"

REFUSED_SECONDS = 60.0
"""Until a context that the cell refused is tried again. A guess."""
RETRY_SECONDS = 5.0
"""As the real operator does while a context is not ready."""
NOT_SEEN_SECONDS = 0.1
"""Until the cache has a context that another binding of the network created. A guess."""


def binding_controller(cells: Fleet, env: Environment) -> Controller:
    bindings = networking.NETWORK_BINDINGS
    return Controller(
        "network-binding",
        cells,
        for_object(cells, bindings, _Bindings(env).reconcile),
        watches=[
            Watch.each(
                cells,
                bindings,
                indexes={BINDINGS_BY_NETWORK: _network_key_of, BINDINGS_BY_CONTEXT: _context_of},
            ),
            Watch(cells, networking.NETWORKS, by_index(cells, bindings, BINDINGS_BY_NETWORK)),
            Watch(
                cells, networking.NETWORK_CONTEXTS, by_index(cells, bindings, BINDINGS_BY_CONTEXT)
            ),
        ],
    )


def context_controller(cells: Fleet, env: Environment) -> Controller:
    """Acts as the infrastructure provider: reports each context programmed and ready."""

    async def reconcile(cell: Cluster, context: Object) -> None:
        await write_conditions(
            cell.client,
            networking.NETWORK_CONTEXTS,
            context,
            ConditionChange(
                networking.CONDITION_PROGRAMMED,
                TRUE,
                networking.REASON_PROGRAMMED,
                "Network context has been programmed",
            ),
            ConditionChange(
                networking.CONDITION_READY,
                TRUE,
                networking.REASON_READY,
                "Network context is ready",
            ),
            now=env.now(),
        )

    return Controller(
        "network-context",
        cells,
        for_object(cells, networking.NETWORK_CONTEXTS, reconcile),
        watches=[Watch.each(cells, networking.NETWORK_CONTEXTS)],
    )


def context_name(network: str, location: str) -> str:
    return f"{network}-{location}"


def network_of(binding: networking.NetworkBinding) -> tuple[str, str]:
    """Namespace and name of the network a binding requests."""
    network = binding.spec.network
    return network.namespace or binding.metadata.namespace, network.name


def _network_key_of(binding: Object) -> Iterable[str]:
    return ["/".join(network_of(binding.view(networking.NetworkBinding)))]


def _context_of(binding: Object) -> Iterable[str]:
    view = binding.view(networking.NetworkBinding)
    namespace, network = network_of(view)
    return [f"{namespace}/{context_name(network, view.spec.location.name)}"]


class _Bindings:
    def __init__(self, env: Environment) -> None:
        self._env = env

    async def reconcile(self, cell: Cluster, binding: Object) -> Result:
        view = binding.view(networking.NetworkBinding)
        namespace, name = network_of(view)
        network = cell.cache(networking.NETWORKS).get(name, namespace)
        if network is None or network.metadata.deleting:
            message = f'network "{name}" is not in namespace "{namespace}" of this cell'
            await self._report(cell, binding, FALSE, networking.REASON_NETWORK_NOT_FOUND, message)
            return DONE  # woken when the network is created
        try:
            context = await _ensure_context(cell, network, view)
        except errors.Invalid as error:
            reason = networking.REASON_NETWORK_FAILED_TO_CREATE
            await self._report(cell, binding, FALSE, reason, str(error))
            return after(REFUSED_SECONDS)
        if not _is_ready(context):
            reason = networking.REASON_NETWORK_CONTEXT_NOT_READY
            message = f'network context "{context.name}" is not ready'
            await self._report(cell, binding, FALSE, reason, message)
            return after(RETRY_SECONDS)
        reason = networking.REASON_NETWORK_CONTEXT_READY
        await self._report(cell, binding, TRUE, reason, "Network context is ready", context)
        return DONE

    async def _report(
        self,
        cell: Cluster,
        binding: Object,
        ready: str,
        reason: str,
        message: str,
        context: Object | None = None,
    ) -> None:
        fields = {}
        if context is not None:
            fields["networkContextRef"] = {"namespace": context.namespace, "name": context.name}
        await write_conditions(
            cell.client,
            networking.NETWORK_BINDINGS,
            binding,
            ConditionChange(networking.CONDITION_READY, ready, reason, message),
            now=self._env.now(),
            fields=fields,
        )


async def _ensure_context(
    cell: Cluster, network: Object, binding: networking.NetworkBinding
) -> Object:
    location = binding.spec.location
    name = context_name(network.name, location.name)
    context = cell.cache(networking.NETWORK_CONTEXTS).get(name, network.namespace)
    if context is not None:
        return context
    body = {
        "metadata": {"name": name, "namespace": network.namespace},
        "spec": {
            "network": {"name": network.name},
            "location": {"name": location.name, "namespace": location.namespace},
        },
    }
    context = await create_owned(
        cell.client,
        networking.NETWORK_CONTEXTS,
        body,
        networking.NETWORKS,
        network,
        delay=NOT_SEEN_SECONDS,
    )
    if context is None:
        raise Waiting(f"network {network.name} was deleted or replaced", 1.0)
    return context


def _is_ready(context: Object) -> bool:
    status = context.view(networking.NetworkContext).status
    return conditions.is_true(status.conditions, networking.CONDITION_READY)
