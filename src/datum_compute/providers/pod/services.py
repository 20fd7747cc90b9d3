"""A headless Service for each deployment that serves HTTP.

It selects the Pods of the deployment, so the cluster keeps EndpointSlices with those that are
ready, and an HTTPRoute or a gateway of the platform can point at it. Hostnames are the platform's:
none is written here. The deployment owns the Service, which the cluster removes with it.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.decisions.routing import http_port
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.predicates import changed
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_owned
from datum_compute.runtime.writes.spec_copies import is_subset

LABEL = compute.LABEL_WORKLOAD_DEPLOYMENT_NAME
"""On the Service, and on the Pods that it selects."""


def service_name(deployment: str) -> str:
    """Names of Services begin with a letter, those of deployments may begin with a digit."""
    return f"http-{deployment}"


def service_spec(deployment: str, port: int) -> dict[str, Any]:
    served = {"name": "http", "port": port, "targetPort": port, "protocol": "TCP"}
    return {
        "clusterIP": "None",
        "selector": {LABEL: deployment},
        "ports": [{**served, "appProtocol": "http"}],
    }


def service_controller(cell: Fleet) -> Controller:
    return Controller(
        "provider-pod-service",
        cell,
        for_object(cell, compute.WORKLOAD_DEPLOYMENTS, _reconcile),
        watches=[
            Watch.each(
                cell,
                compute.WORKLOAD_DEPLOYMENTS,
                predicate=changed(lambda each: http_port(each.metadata.annotations)),
            ),
            Watch.owned(cell, core.SERVICES, by=compute.WORKLOAD_DEPLOYMENTS, label_selector=LABEL),
        ],
    )


async def _reconcile(cell: Cluster, deployment: Object) -> Result:
    port = http_port(deployment.metadata.annotations)
    name, namespace = service_name(deployment.name), deployment.namespace
    found = cell.cache(core.SERVICES, label_selector=LABEL).get(name, namespace)
    owner = found.metadata.controller() if found is not None else None
    if found is not None and (owner is None or owner.uid != deployment.metadata.uid):
        return DONE  # of others, or of a predecessor that is being removed
    if port is None:
        if found is not None and not found.metadata.deleting:
            await patch.delete_if_present(cell.client, core.SERVICES, found)
        return DONE
    spec = service_spec(deployment.name, port)
    if found is None:
        metadata = {"name": name, "namespace": namespace, "labels": {LABEL: deployment.name}}
        body = {"metadata": metadata, "spec": spec}
        await create_owned(
            cell.client, core.SERVICES, body, compute.WORKLOAD_DEPLOYMENTS, deployment
        )
    elif not is_subset(spec, patch.values(found.spec)):
        changes = {"selector": spec["selector"], "ports": spec["ports"]}
        await patch.ensure_metadata(cell.client, core.SERVICES, found, spec=changes)
    return DONE
