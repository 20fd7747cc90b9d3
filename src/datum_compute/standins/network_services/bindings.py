"""NetworkBindings and NetworkContexts: a network's presence at a location, made on demand.

A binding asks to be on a network at a location. The network must be there, in the cell
itself; then its context for that location is made, in the network's namespace and controlled
by the network. The context is programmed at once, since no wires are laid here, and with it
the binding is ready.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch
from datum_compute.standins.network_services.owners import owner_exists

BINDINGS_BY_NETWORK = "network/network"
BINDINGS_BY_CONTEXT = "network/context"

REFUSED_SECONDS = 60.0
"""Until a context that the cell would not take is tried again. A guess."""
RETRY_SECONDS = 5.0
"""As the real operator does while a context is not ready."""


def binding_controller(cells: Fleet, env: Environment) -> Controller:
    reconciler = _Bindings(cells, env)
    return Controller(
        "network-binding",
        cells,
        reconciler.reconcile,
        watches=[
            Watch(
                cells,
                networking.NETWORK_BINDINGS,
                itself,
                indexes={BINDINGS_BY_NETWORK: _network_key_of, BINDINGS_BY_CONTEXT: _context_of},
            ),
            Watch(cells, networking.NETWORKS, reconciler.by_index(BINDINGS_BY_NETWORK)),
            Watch(cells, networking.NETWORK_CONTEXTS, reconciler.by_index(BINDINGS_BY_CONTEXT)),
        ],
    )


def context_controller(cells: Fleet, env: Environment) -> Controller:
    """Plays the infrastructure provider for contexts: programmed, hence ready."""

    async def reconcile(request: Request) -> Result:
        cell = cells.get(request.cluster)
        if cell is None:
            return DONE
        context = cell.cache(networking.NETWORK_CONTEXTS).get(request.name, request.namespace)
        if context is None or context.metadata.deleting:
            return DONE
        wanted = context.view(networking.NetworkContext).status.conditions
        for kind, reason, message in (
            (
                networking.CONDITION_PROGRAMMED,
                networking.REASON_PROGRAMMED,
                "Network context has been programmed",
            ),
            (networking.CONDITION_READY, networking.REASON_READY, "Network context is ready"),
        ):
            wanted = conditions.with_condition(
                wanted,
                kind,
                TRUE,
                reason,
                message,
                now=env.now(),
                observed_generation=context.metadata.generation,
            )
        status = {**patch.values(context.status), "conditions": conditions.to_wire(wanted)}
        await patch.write_status(cell.client, networking.NETWORK_CONTEXTS, context, status)
        return DONE

    watches = [Watch(cells, networking.NETWORK_CONTEXTS, itself)]
    return Controller("network-context", cells, reconcile, watches=watches)


def context_name(network: str, location: str) -> str:
    return f"{network}-{location}"


def network_of(binding: networking.NetworkBinding) -> tuple[str, str]:
    """Namespace and name of the network a binding asks for."""
    network = binding.spec.network
    return network.namespace or binding.metadata.namespace, network.name


def _network_key_of(binding: Object) -> Iterable[str]:
    return ["/".join(network_of(binding.view(networking.NetworkBinding)))]


def _context_of(binding: Object) -> Iterable[str]:
    view = binding.view(networking.NetworkBinding)
    namespace, network = network_of(view)
    return [f"{namespace}/{context_name(network, view.spec.location.name)}"]


class _Bindings:
    def __init__(self, cells: Fleet, env: Environment) -> None:
        self._cells = cells
        self._env = env

    def by_index(self, index: str) -> Any:
        """A mapping from an object to the bindings indexed under its key."""

        def bindings_of(cluster: str, obj: Object) -> Iterable[Request]:
            cell = self._cells.get(cluster)
            if cell is None:
                return
            found = cell.cache(networking.NETWORK_BINDINGS)
            for binding in found.by_index(index, f"{obj.namespace}/{obj.name}"):
                yield Request(cluster, binding.namespace, binding.name)

        return bindings_of

    async def reconcile(self, request: Request) -> Result:
        cell = self._cells.get(request.cluster)
        if cell is None:
            return DONE
        binding = cell.cache(networking.NETWORK_BINDINGS).get(request.name, request.namespace)
        if binding is None or binding.metadata.deleting:
            return DONE
        view = binding.view(networking.NetworkBinding)
        namespace, name = network_of(view)
        network = cell.cache(networking.NETWORKS).get(name, namespace)
        if network is None or network.metadata.deleting:
            message = f'network "{name}" is not in namespace "{namespace}" of this cell'
            await self._report(cell, binding, FALSE, networking.REASON_NETWORK_NOT_FOUND, message)
            return DONE  # woken when the network comes
        try:
            context = await self._ensure_context(cell, network, view)
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

    async def _ensure_context(
        self, cell: Cluster, network: Object, binding: networking.NetworkBinding
    ) -> Object:
        name = context_name(network.name, binding.spec.location.name)
        context = cell.cache(networking.NETWORK_CONTEXTS).get(name, network.namespace)
        if context is not None:
            return context
        if not await owner_exists(cell, networking.NETWORKS, network):
            raise Waiting(f"network {network.name} is not what it was", 1.0)
        location = binding.spec.location
        body = {
            "apiVersion": networking.NETWORK_CONTEXTS.api_version,
            "kind": networking.NETWORK_CONTEXTS.kind,
            "metadata": {
                "name": name,
                "namespace": network.namespace,
                "ownerReferences": [owner_reference(network, controller=True)],
            },
            "spec": {
                "network": {"name": network.name},
                "location": {"name": location.name, "namespace": location.namespace},
            },
        }
        try:
            return await cell.client.create(networking.NETWORK_CONTEXTS, body, network.namespace)
        except errors.AlreadyExists as error:
            # Another binding of the same network was faster.
            raise Waiting(f"network context {name} is not seen yet", 0.1) from error

    async def _report(
        self,
        cell: Cluster,
        binding: Object,
        ready: str,
        reason: str,
        message: str,
        context: Object | None = None,
    ) -> None:
        status = patch.values(binding.status)
        current = binding.view(networking.NetworkBinding).status.conditions
        status["conditions"] = conditions.to_wire(
            conditions.with_condition(
                current,
                networking.CONDITION_READY,
                ready,
                reason,
                message,
                now=self._env.now(),
                observed_generation=binding.metadata.generation,
            )
        )
        if context is not None:
            status["networkContextRef"] = {"namespace": context.namespace, "name": context.name}
        await patch.write_status(cell.client, networking.NETWORK_BINDINGS, binding, status)


def _is_ready(context: Object) -> bool:
    status = context.view(networking.NetworkContext).status
    return conditions.is_true(status.conditions, networking.CONDITION_READY)
