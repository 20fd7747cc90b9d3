"""The first objects of a local platform, ensured at every start.

Per city a Karmada Cluster on the hub and a Location in the cell; on the root plane the project,
the quota registrations, the grant policy for further projects, and the service compute; in the
project a network, a grant, an active entitlement, and per city a Location with an available
LocationBinding. Existing objects are left as they are: users may have changed them. A later
start changes only what its settings change: the grant, and the served cities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from datum_compute.api import conditions, karmada, planes
from datum_compute.api.compute.constants import LABEL_TOPOLOGY_CITY_CODE
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services
from datum_compute.assembly import milo_objects
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.assembly.milo_objects import manifest
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.env import Environment

LOCATION_CLASS = "datum-managed"
GRANT_SETTING = "local.datumapis.com/grant"
"""Annotation of the grant: the setting it was last written from."""
PREPARED = "local.datumapis.com/prepared"
"""Annotation of a project that gets a network, an entitlement and cities from this platform."""
SERVED, NOT_SERVED = "Available", "LeftOut"
"""Reasons of a LocationBinding's condition that bootstrap writes; any other is left alone."""

FIRST_GRANTS = "first-grant"
"""The policy for projects other than the platform's own."""


async def ensure(
    client: Client, resource: Resource, body: Mapping[str, Any], namespace: str = ""
) -> Object:
    """The object of this name, created from ``body`` when nothing is there."""
    name = str(body["metadata"]["name"])
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        pass
    try:
        return await client.create(resource, body, namespace)
    except errors.AlreadyExists:
        return await client.get(resource, name, namespace)


async def ensure_root(root_client: Client, settings: LocalSettings) -> None:
    for registration in milo_objects.registrations():
        await ensure(root_client, quota.RESOURCE_REGISTRATIONS, registration)
    await _ensure_first_grants(root_client, settings)
    await _ensure_service(root_client, settings)
    owner = {"kind": "Organization", "name": "local"}
    project = manifest(resourcemanager.PROJECTS, settings.project, {"ownerRef": owner})
    await ensure(root_client, resourcemanager.PROJECTS, project)


async def _ensure_first_grants(root_client: Client, settings: LocalSettings) -> None:
    """The grant of every project besides the platform's own."""
    others = {"expression": f'trigger.metadata.name != "{settings.project}"'}
    body = milo_objects.grant_policy(FIRST_GRANTS, [others])
    policy = await ensure(root_client, quota.GRANT_CREATION_POLICIES, body)
    constraints = msgspec.to_builtins(
        policy.view(quota.GrantCreationPolicy).spec.trigger.constraints
    )
    if others["expression"] not in [one["expression"] for one in constraints]:
        patch = merge({"spec": {"trigger": {"constraints": [*constraints, others]}}})
        await root_client.patch(quota.GRANT_CREATION_POLICIES, FIRST_GRANTS, patch)


async def _ensure_service(root_client: Client, settings: LocalSettings) -> None:
    """Compute in the service catalogue, with its meters."""
    for resource in (services.SERVICE_CONFIGURATIONS, services.SERVICES):
        await _delete_misnamed(root_client, resource)
    await ensure(root_client, services.SERVICES, milo_objects.service(settings.project))
    configuration = milo_objects.service_configuration()
    await ensure(root_client, services.SERVICE_CONFIGURATIONS, configuration)


async def _delete_misnamed(root_client: Client, resource: Resource) -> None:
    """Version 0.1.0 called the object by the service's name, which no catalogue of Milo does."""
    try:
        await root_client.delete(resource, services.SERVICE_COMPUTE_NAME)
    except errors.NotFound:
        pass


async def ensure_hub(hub_client: Client, settings: LocalSettings) -> None:
    interpreter = manifest(
        karmada.INTERPRETER_CUSTOMIZATIONS,
        "workloaddeployment-status",
        {
            "target": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment"},
            "customizations": {
                "statusAggregation": {"luaScript": AGGREGATE_STATUS},
                "dependencyInterpretation": {"luaScript": GET_DEPENDENCIES},
            },
        },
    )
    found = await ensure(hub_client, karmada.INTERPRETER_CUSTOMIZATIONS, interpreter)
    if found.view(karmada.InterpreterCustomization).spec.customizations != msgspec.convert(
        interpreter["spec"]["customizations"], karmada.Customizations
    ):
        # An earlier version wrote it.
        change = merge({"spec": interpreter["spec"]})
        await hub_client.patch(karmada.INTERPRETER_CUSTOMIZATIONS, found.name, change)
    for city, cell in zip(settings.cities, settings.cells, strict=True):
        spec = {"syncMode": "Push", "apiEndpoint": planes.CELL.path.format(cell)}
        body = manifest(karmada.CLUSTERS, cell, spec, labels={LABEL_TOPOLOGY_CITY_CODE: city})
        await ensure(hub_client, karmada.CLUSTERS, body)


AGGREGATE_STATUS = """\
function AggregateStatus(desiredObj, statusItems)
  if statusItems ~= nil and statusItems[1] ~= nil and statusItems[1].status ~= nil then
    desiredObj.status = statusItems[1].status
  end
  return desiredObj
end
"""
"""One deployment runs in one cell, so that cell's status is passed through unchanged."""

GET_DEPENDENCIES = """\
function GetDependencies(desiredObj)
  local dependencies = {}
  local annotations = desiredObj.metadata.annotations
  if annotations == nil then
    return dependencies
  end
  local expected = annotations["compute.datumapis.com/expected-referenced-data"]
  if expected == nil then
    return dependencies
  end
  for kind, name in string.gmatch(expected, '"(%a+)/([^"]+)"') do
    table.insert(dependencies, {
      apiVersion = "v1",
      kind = kind,
      namespace = desiredObj.metadata.namespace,
      name = name,
    })
  end
  return dependencies
end
"""
"""The entries of the annotation, a JSON list of ``Kind/name``. Lua has no JSON library, and names
need no escaping."""


async def ensure_location(client: Client, city: str) -> None:
    """The Location of a city, in a project or in the cell that serves it."""
    spec = {
        "locationClassName": LOCATION_CLASS,
        "topology": {LABEL_TOPOLOGY_CITY_CODE: city},
    }
    body = manifest(networking.LOCATIONS, city.lower(), spec)
    await ensure(client, networking.LOCATIONS, body)


async def ensure_project(project_client: Client, env: Environment, settings: LocalSettings) -> None:
    """The platform's own project."""
    await _ensure_grant(project_client, settings)
    await ensure_further_project(project_client, env, settings)


async def ensure_further_project(
    project_client: Client, env: Environment, settings: LocalSettings
) -> None:
    """What a project needs besides quota, which the grant policy gives to every new one."""
    network = manifest(networking.NETWORKS, "default", {"ipam": {"mode": "Auto"}})
    await ensure(project_client, networking.NETWORKS, network, "default")
    await _ensure_entitlement(project_client, env)
    for city in settings.cities:
        await ensure_location(project_client, city)
        await _ensure_location_binding(project_client, env, city)
    await _withdraw_left_out(project_client, env, settings)


async def prepared_projects(root_client: Client) -> list[str]:
    """The projects that ask this platform for what its own has."""
    page = await root_client.list(resourcemanager.PROJECTS)
    return [
        each.name
        for each in page.items
        if PREPARED in each.metadata.annotations and each.metadata.deletion_timestamp is None
    ]


async def _ensure_entitlement(project_client: Client, env: Environment) -> None:
    """The entitlement of the platform's own project is approved at once."""
    spec = {"serviceRef": {"name": services.SERVICE_COMPUTE}}
    body = manifest(services.SERVICE_ENTITLEMENTS, services.ENTITLEMENT_COMPUTE, spec)
    try:
        found = await project_client.get(
            services.SERVICE_ENTITLEMENTS, services.ENTITLEMENT_COMPUTE
        )
        named = found.view(services.ServiceEntitlement).spec.service_ref.name
        if named == services.SERVICE_COMPUTE_NAME:  # as version 0.1.0 wrote it
            await project_client.patch(
                services.SERVICE_ENTITLEMENTS, found.name, merge({"spec": spec})
            )
        return
    except errors.NotFound:
        pass
    await ensure(project_client, services.SERVICE_ENTITLEMENTS, body)
    status = {
        "phase": services.PHASE_ACTIVE,
        "origin": services.ORIGIN_DIRECT,
        "entitledAt": _moment(env),
    }
    await project_client.patch(
        services.SERVICE_ENTITLEMENTS,
        services.ENTITLEMENT_COMPUTE,
        merge({"status": status}),
        subresource="status",
    )


def _moment(env: Environment) -> str:
    return env.now().strftime("%Y-%m-%dT%H:%M:%SZ")


async def _ensure_grant(project_client: Client, settings: LocalSettings) -> None:
    setting = ",".join(f"{name}={amount}" for name, amount in sorted(settings.grant.items()))
    annotations = {GRANT_SETTING: setting}
    spec = {
        "consumerRef": {
            "apiGroup": "resourcemanager.miloapis.com",
            "kind": "Project",
            "name": settings.project,
        },
        "allowances": [
            {"resourceType": f"compute.datumapis.com/{name}", "buckets": [{"amount": amount}]}
            for name, amount in sorted(settings.grant.items())
        ],
    }
    body = manifest(quota.RESOURCE_GRANTS, "local-default", spec, annotations=annotations)
    grant = await ensure(project_client, quota.RESOURCE_GRANTS, body, quota.NAMESPACE_MILO_SYSTEM)
    if grant.metadata.annotations.get(GRANT_SETTING) != setting:
        patch = merge({"metadata": {"annotations": annotations}, "spec": spec})
        await project_client.patch(
            quota.RESOURCE_GRANTS, grant.name, patch, quota.NAMESPACE_MILO_SYSTEM
        )


async def _ensure_location_binding(project_client: Client, env: Environment, city: str) -> None:
    spec = {
        "locationRef": {"name": city.lower()},
        "locationClassName": LOCATION_CLASS,
        "displayName": city,
        "topology": {LABEL_TOPOLOGY_CITY_CODE: city},
    }
    body = manifest(networking.LOCATION_BINDINGS, city.lower(), spec)
    binding = await ensure(project_client, networking.LOCATION_BINDINGS, body)
    if not binding.status or _reason(binding) == NOT_SERVED:
        message = f"The local platform serves {city}"
        await _set_available(project_client, env, binding.name, "True", SERVED, message)


async def _withdraw_left_out(
    project_client: Client, env: Environment, settings: LocalSettings
) -> None:
    """Report cities that this start leaves out as not available. What runs there stays, and is
    served again when a later start has the city."""
    page = await project_client.list(networking.LOCATION_BINDINGS)
    for binding in page.items:
        city = binding.view(networking.LocationBinding).city_code
        if city not in settings.cities and _reason(binding) == SERVED:
            message = f"The local platform was started without {city}"
            await _set_available(project_client, env, binding.name, "False", NOT_SERVED, message)


def _reason(binding: Object) -> str:
    status = binding.view(networking.LocationBinding).status
    found = conditions.find(status.conditions, "Available")
    return found.reason if found else ""


async def _set_available(
    project_client: Client, env: Environment, name: str, status: str, reason: str, message: str
) -> None:
    available = {
        "type": "Available",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _moment(env),
    }
    await project_client.patch(
        networking.LOCATION_BINDINGS,
        name,
        merge({"status": {"conditions": [available]}}),
        subresource="status",
    )
