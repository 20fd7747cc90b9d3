"""The controllers of each process group, the same in the local platform and in a manager."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from datum_compute.client.protocol import Client
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.controllers.management.federation import federator, policy_cleanup_controller
from datum_compute.controllers.management.projection import projector
from datum_compute.controllers.management.referenced_data import referenced_data_controller
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.env import Environment
from datum_compute.fleets.cell_projects import CellProjectFleet
from datum_compute.providers import registry
from datum_compute.providers.protocol import RunnableProvider
from datum_compute.providers.registry import ProviderContext
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.manager import Manager


def add_management(
    manager: Manager, env: Environment, *, projects: Fleet, hub: Fleet | None
) -> None:
    """Without a hub nothing is federated: the cell controllers run on the same plane."""
    metrics = manager.metrics
    entitlements = hub is not None
    manager.add(workload_controller(projects, env, metrics=metrics, entitlements=entitlements))
    if hub is not None:
        manager.add(
            federator(projects, hub, env, metrics=metrics),
            policy_cleanup_controller(hub),
            referenced_data_controller(projects, hub, env, metrics=metrics),
            projector(projects, hub, env, metrics=metrics),
        )


def add_cell(
    manager: Manager,
    env: Environment,
    *,
    cell: Fleet,
    cluster_name: str,
    networking: bool,
    hub: Fleet | None,
    project_client: Callable[[str], Client] | None,
) -> None:
    """``cluster_name`` is the cell's name in the hub and the projects. ``project_client``
    reaches the projects in which the cell claims quota; without it quota is not enforced."""
    projects = None
    if project_client is not None:
        projects = CellProjectFleet("tenants", cell, project_client, env, cluster_name=cluster_name)
    for build in (workload_deployment_controller, instance_controller):
        manager.add(
            build(
                cell,
                env,
                hub=hub,
                projects=projects,
                cluster_name=cluster_name,
                networking=networking,
                metrics=manager.metrics,
            )
        )


def add_provider(manager: Manager, name: str, context: ProviderContext) -> RunnableProvider:
    """Runs the registered provider of this name on the Instances of a cell."""
    provider = registry.find(name).build(replace(context, metrics=manager.metrics))
    if isinstance(provider, AbstractAsyncContextManager):
        manager.enter(provider)
    manager.add(*provider.controllers())
    return provider
