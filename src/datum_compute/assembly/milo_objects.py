"""What compute registers with Milo, on the root plane: its service with metrics and limits, its
quota, and the permissions and roles of its kinds.

A local platform creates what its stand-ins read; ``deploy/milo`` holds all of it as YAML, for a
real platform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.quota_resources import QUOTA_RESOURCES
from datum_compute.api.kinds import COMPUTE_KINDS
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services

Manifest = dict[str, Any]

DEFAULT_GRANT = {"instances": 10, "vcpus": 40_000, "memory": 81_920}
"""What a new project may use, unless it is granted more."""
GRANT_POLICY = "compute-default-grant"
PRODUCER = "compute"
"""The project that offers compute in the shipped Service; an overlay names another."""

IAM = "iam.miloapis.com"
READING = ("list", "get", "watch")
WRITING = ("create", "update", "patch", "delete")

_PROJECT = {"apiGroup": resourcemanager.PROJECTS.group, "kind": resourcemanager.PROJECTS.kind}


def manifest(resource: Resource, name: str, spec: Mapping[str, Any], **metadata: Any) -> Manifest:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def files() -> dict[str, list[Manifest]]:
    """The files of ``deploy/milo`` and their objects."""
    return {
        "service.yaml": [service(PRODUCER), service_configuration()],
        "quota.yaml": [*registrations(), grant_policy(GRANT_POLICY)],
        "protected-resources.yaml": protected_resources(),
        "roles.yaml": roles(),
    }


def registrations() -> list[Manifest]:
    """Projects claim for their Instances, and an Instance may claim for itself."""
    instance = {"apiGroup": compute.INSTANCES.group, "kind": compute.INSTANCES.kind}
    return [
        manifest(
            quota.RESOURCE_REGISTRATIONS,
            f"compute-{counted.name}",
            {
                "consumerType": _PROJECT,
                "type": counted.registration,
                "resourceType": counted.resource_type,
                "baseUnit": counted.base_unit,
                "displayUnit": counted.display_unit,
                "unitConversionFactor": counted.factor,
                "claimingResources": [_PROJECT, instance],
            },
        )
        for counted in QUOTA_RESOURCES.values()
    ]


def grant_policy(name: str, constraints: Sequence[Mapping[str, str]] = ()) -> Manifest:
    """The grant of every project for which the constraints hold."""
    allowances = [
        {
            "resourceType": QUOTA_RESOURCES[granted].resource_type,
            "buckets": [{"amount": amount}],
        }
        for granted, amount in sorted(DEFAULT_GRANT.items())
    ]
    trigger: dict[str, Any] = {
        "resource": {
            "apiVersion": resourcemanager.PROJECTS.api_version,
            "kind": resourcemanager.PROJECTS.kind,
        }
    }
    if constraints:
        trigger["constraints"] = list(constraints)
    template = {
        "metadata": {"name": name, "namespace": quota.NAMESPACE_MILO_SYSTEM},
        "spec": {
            "consumerRef": {**_PROJECT, "name": "{{ trigger.metadata.name }}"},
            "allowances": allowances,
        },
    }
    parent = {**_PROJECT, "nameExpression": "trigger.metadata.name"}
    target = {"parentContext": parent, "resourceGrantTemplate": template}
    spec = {"trigger": trigger, "target": target}
    return manifest(quota.GRANT_CREATION_POLICIES, name, spec)


def service(producer: str) -> Manifest:
    spec = {
        "serviceName": services.SERVICE_COMPUTE_NAME,
        "phase": services.PHASE_PUBLISHED,
        "displayName": "Compute",
        "description": "Runs images in many cities",
        "owner": {"producerProjectRef": {"name": producer}},
    }
    return manifest(services.SERVICES, services.SERVICE_COMPUTE, spec)


def service_configuration() -> Manifest:
    """The catalogue refuses a limit or a cost of a metric that is not declared here."""
    spec = {
        "serviceRef": {"name": services.SERVICE_COMPUTE},
        "phase": services.PHASE_PUBLISHED,
        "metrics": [
            {"name": _metric(each.name), "kind": "Gauge", "unit": each.metric_unit}
            for each in QUOTA_RESOURCES.values()
        ],
        "quota": {"limits": _limits(), "metricRules": _metric_rules()},
    }
    return manifest(services.SERVICE_CONFIGURATIONS, services.SERVICE_COMPUTE, spec)


def _metric(name: str) -> str:
    return f"{services.SERVICE_COMPUTE_NAME}/{name}"


def _limits() -> list[Manifest]:
    """The grants of a new project."""
    return [
        {
            "name": name,
            "metric": _metric(name),
            "consumerType": _PROJECT,
            "unit": "1/{project}",
            "defaultLimit": amount,
        }
        for name, amount in DEFAULT_GRANT.items()
    ]


def _metric_rules() -> list[Manifest]:
    """The amounts that our objects count for."""
    return [
        {
            "selector": {"apiGroup": resource.group, "kind": resource.kind},
            "metricCosts": {_metric(resource.plural): 1},
        }
        for resource in (compute.WORKLOADS, compute.INSTANCES)
    ]


def protected_resources() -> list[Manifest]:
    """The kinds of compute, which belong to a project, with every permission on them."""
    return [
        {
            "apiVersion": f"{IAM}/v1alpha1",
            "kind": "ProtectedResource",
            "metadata": {"name": f"{resource.group}-{resource.kind.lower()}"},
            "spec": {
                "serviceRef": {"name": services.SERVICE_COMPUTE_NAME},
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "permissions": [*READING, *WRITING],
                "parentResources": [_PROJECT],
            },
        }
        for resource in (kind.resource for kind in COMPUTE_KINDS)
    ]


def roles() -> list[Manifest]:
    """Who may see what runs, and who may change it: users write Workloads, controllers the rest."""
    viewer = [
        f"{kind.resource.group}/{kind.resource.plural}.{verb}"
        for kind in COMPUTE_KINDS
        for verb in READING
    ]
    written = compute.WORKLOADS
    admin = [f"{written.group}/{written.plural}.{verb}" for verb in WRITING]
    return [
        _role("viewer", {"includedPermissions": viewer}),
        _role(
            "admin",
            {"inheritedRoles": [{"name": _role_name("viewer")}], "includedPermissions": admin},
        ),
    ]


def _role(name: str, spec: Mapping[str, Any]) -> Manifest:
    return {
        "apiVersion": f"{IAM}/v1alpha1",
        "kind": "Role",
        "metadata": {"name": _role_name(name)},
        "spec": {"launchStage": "Beta", **spec},
    }


def _role_name(name: str) -> str:
    return f"compute-{name}"
