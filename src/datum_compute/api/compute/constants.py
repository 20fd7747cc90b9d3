"""The constants of the compute API: labels, annotations, finalizers, conditions.

They are the contract on the wire, so their values never change. Reasons, and gates with their
conditions, are in :mod:`datum_compute.api.compute.reasons`.
"""

from __future__ import annotations

from collections.abc import Mapping

GROUP = "compute.datumapis.com"
VERSION = "v1alpha"

# Labels of the compute API.
LABEL_WORKLOAD_UID = "compute.datumapis.com/workload-uid"
"""On deployments and Instances: UID of the Workload in its project."""
LABEL_WORKLOAD_DEPLOYMENT_UID = "compute.datumapis.com/workload-deployment-uid"
"""On Instances: UID of the WorkloadDeployment **of the same plane**."""
LABEL_INSTANCE_INDEX = "compute.datumapis.com/instance-index"
"""On Instances: the ordinal."""
LABEL_WORKLOAD_DEPLOYMENT_NAME = "compute.datumapis.com/workload-deployment-name"
"""On Instances: name of the WorkloadDeployment, the same on every plane."""
LABEL_CITY_CODE = "compute.datumapis.com/city-code"
"""On Instances: the city, as the placement spells it."""
LABEL_WORKLOAD_NAME = "compute.datumapis.com/workload-name"
"""On Instances: name of the Workload."""
LABEL_PLACEMENT_NAME = "compute.datumapis.com/placement-name"
"""On Instances: name of the placement."""
LABEL_SOURCE_CLUSTER = "compute.datumapis.com/source-cluster"
"""On claims and hub copies: the cell that wrote them and alone may change them."""
LABEL_INSTANCE_NAMESPACE = "compute.datumapis.com/instance-namespace"
"""On claims: the Instance's namespace in its cell."""
LABEL_REFERENCED_DATA = "compute.datumapis.com/referenced-data"
"""On companions, the copies of ConfigMaps and Secrets on the hub and in cells: ``true``."""

# Labels shared with the platform.
LABEL_TOPOLOGY_CITY_CODE = "topology.datum.net/city-code"
"""On hub deployments and Karmada Clusters; also a key of a Location's topology."""
LABEL_UPSTREAM_CLUSTER_NAME = "meta.datumapis.com/upstream-cluster-name"
"""On hub and cell namespaces, deployments there, and hub Instances: the project, encoded."""
LABEL_UPSTREAM_NAMESPACE = "meta.datumapis.com/upstream-namespace"
"""On hub and cell namespaces and hub copies: the project's namespace."""

# Annotations.
ANNOTATION_SSH_KEYS = "compute.datumapis.com/ssh-keys"
"""On a template: lines of ``user:key``, for virtual machines."""
ANNOTATION_RESTARTED_AT = "compute.datumapis.com/restartedAt"
"""On a template: the time of the last wanted restart; a later one rolls every Instance."""
ANNOTATION_SLEEP_AFTER = "compute.datumapis.com/sleep-after"
"""On a template: how long no connection must be open until an Instance sleeps; ``never`` where it
does not, whatever the annotations of Unikraft say."""
ANNOTATION_WAKE_DEADLINE = "compute.datumapis.com/wake-deadline"
"""On a template: how long a connection waits for an Instance to wake."""
ANNOTATION_AWAKE_UNTIL = "compute.datumapis.com/awake-until"
"""On a template: no Instance sleeps before this time. Not part of the template's hash, so that a
change of it replaces no Instance."""
ANNOTATION_UNIKRAFT_POLICY = "cloud.unikraft.v1.instances/scale_to_zero.policy"
"""On a template: ``on`` lets Instances sleep, as Unikraft Cloud understands it."""
ANNOTATION_UNIKRAFT_COOLDOWN = "cloud.unikraft.v1.instances/scale_to_zero.cooldown_time_ms"
"""On a template: the same as ``sleep-after``, in milliseconds."""
ANNOTATION_UNIKRAFT_STATEFUL = "cloud.unikraft.v1.instances/scale_to_zero.stateful"
"""On a template: ``true`` keeps the memory of an Instance for as long as it sleeps."""
ANNOTATION_FEDERATION_NAMESPACE = "compute.datumapis.com/federation-namespace"
"""On a project deployment: its namespace on the hub, written before the first hub write."""
ANNOTATION_REPLACED_BY = "compute.datumapis.com/replaced-by"
"""On a project deployment that its Workload no longer names: ``placement/city`` of each that must
be Available before it is deleted, separated by commas."""
ANNOTATION_SOURCE_GENERATION = "compute.datumapis.com/source-generation"
"""On a hub deployment: the project generation its spec was copied from."""
ANNOTATION_PROPAGATION_REQUESTED = "compute.datumapis.com/propagation-requested-at"
"""On a hub deployment: when the federator last asked Karmada to look at it again."""
ANNOTATION_EXPECTED_REFERENCED_DATA = "compute.datumapis.com/expected-referenced-data"
"""On a deployment whose template names ConfigMaps or Secrets: those that its cell is to have, as a
JSON list of ``Kind/name``."""
ANNOTATION_REFERENCED_DATA_ERROR = "compute.datumapis.com/referenced-data-error"
"""On a deployment: why data that its template names is not delivered, as JSON with ``reason`` and
``message``."""
ANNOTATION_DELIVERED_DATA = "compute.datumapis.com/delivered-data"
"""On a deployment: what was delivered for it last, as a JSON object of ``Kind/name`` and a hash of
the content. The hash is keyed with the uid of the source, so that no value can be guessed by it."""
ANNOTATION_DATA_HASH = "compute.datumapis.com/data-hash"
"""On the template of a deployment that rolls on changes: a hash of what was delivered for it."""
ANNOTATION_ROLL_ON_CONFIG_CHANGE = "compute.datumapis.com/roll-on-config-change"
"""On a template: ``true`` rolls every Instance when data that the template names changes."""
ANNOTATION_REFERENCED_BY = "compute.datumapis.com/referenced-by"
"""On a companion: the project's deployments that use it, as a JSON list of ``namespace/name``."""
ANNOTATION_SUSPENDED = "compute.datumapis.com/suspended"
"""On a Workload, a deployment or a cell's Instance: any text but the empty one stops it. On a
deployment it says who wrote it: :data:`SUSPENDED_BY_WORKLOAD`, :data:`SUSPENDED_BY_PROJECT`, or a
user."""
ANNOTATION_SUSPENDED_BY = "compute.datumapis.com/suspended-by"
"""On what a user has stopped: who did, and when, as JSON with ``actor`` and ``timestamp``."""
ANNOTATION_HTTP_PORT = "compute.datumapis.com/http-port"
"""On a Workload, and copied to its deployments: the port on which its Instances serve HTTP."""
ANNOTATION_URL = "compute.datumapis.com/url"
"""On a project's Workload or deployment: where people open it. The platform that serves the URL
writes it."""
ANNOTATION_INSTANCE_UID = "compute.datumapis.com/instance-uid"
"""On copies of an Instance: the cell's UID, so that a successor is distinguished."""
ANNOTATION_CURRENT_REVISION = "compute.datumapis.com/current-revision"
"""On a workload's revision history: the number of the active revision."""
ANNOTATION_LAST_CHANGE = "compute.datumapis.com/last-change"
"""On a Workload: the author, time and kind of its last change, until the history has it."""
ANNOTATION_ROLLOUT = "compute.datumapis.com/rollout"
"""On a Workload: how a change of its template reaches the cities, as a JSON object."""
ANNOTATION_ROLLOUT_PAUSED = "compute.datumapis.com/rollout-paused"
"""On a Workload: who paused its rollout, and when; no template moves while it is there."""
ANNOTATION_ROLLOUT_PROMOTED = "compute.datumapis.com/rollout-promoted"
"""On a Workload: ``<template hash>/<wave>`` or ``<template hash>/all``. Waves up to that one are
open, and those before it are neither soaked nor judged."""
ANNOTATION_ROLLOUT_ABORTED = "compute.datumapis.com/rollout-aborted"
"""On a Workload: the hash of the template whose rollout is to be undone."""
ANNOTATION_ROLLOUT_SKIPPED = "compute.datumapis.com/rollout-skipped"
"""On a Workload: ``<template hash>/<city>,<city>``: cities that its rollout does not wait for."""
ANNOTATION_ROLLOUT_STATE = "compute.datumapis.com/rollout-state"
"""On a project deployment: its part of a rollout, as a JSON object."""
ANNOTATION_LAST_GOOD_TEMPLATE = "compute.datumapis.com/last-good-template"
"""On a project deployment: the last template that completed its wave there, as JSON."""

# Values of the annotation by which a deployment is stopped.
SUSPENDED = "true"
"""By a user."""
SUSPENDED_BY_WORKLOAD = "workload"
"""With its Workload; the Workload controller writes and removes it."""
SUSPENDED_BY_PROJECT = "project"
"""With its project; the Workload controller writes and removes it."""

# Finalizers.
FINALIZER_WORKLOAD = "compute.datumapis.com/workload-controller"
"""On a Workload: held until all its deployments are deleted."""
FINALIZER_WORKLOAD_DEPLOYMENT = FINALIZER_WORKLOAD
"""On a deployment in its cell: held until all its Instances are deleted."""
FINALIZER_FEDERATOR = "compute.datumapis.com/federator"
"""On a project deployment: held until hub copy, binding and Works are deleted."""
FINALIZER_REFERENCED_DATA = "compute.datumapis.com/referenced-data-controller"
"""On a project deployment: held until no companion is kept for it."""
FINALIZER_INSTANCE = "compute.datumapis.com/instance-controller"
"""On a cell's Instance: held until its hub copy is deleted."""
FINALIZER_QUOTA_CLAIM = "quota.compute.datumapis.com/claim-cleanup"
"""On a cell's Instance: held until its claim is deleted or passed on."""


def provider_finalizer(provider: str) -> str:
    """Held by a provider until nothing of the Instance is left running."""
    return f"{provider}.compute.datumapis.com/finalizer"


# How the Instances of a deployment are created, replaced and removed.
POLICY_ORDERED_READY = "OrderedReady"
"""One Instance at a time, by ordinal, each Ready before the next."""
POLICIES = (POLICY_ORDERED_READY,)
"""Every policy; ``decisions/instances/policies.py`` names the module of each."""

# Instance conditions besides those of gates.
CONDITION_PROGRAMMED = "Programmed"
"""A provider has accepted the Instance as it is written now."""
CONDITION_AVAILABLE = "Available"
"""It is ready to serve, also while scaled to zero."""
CONDITION_READY = "Ready"
"""The Instance serves: everything it needs is granted, programmed and available."""

CONDITION_ASLEEP = "Asleep"
"""It runs nothing until a connection arrives, and is Available and Ready all the same. Absent where
the template does not ask for sleep."""

# WorkloadDeployment conditions besides Available.
CONDITION_REPLICAS_READY = "ReplicasReady"
"""As many Instances are Ready as are wanted; otherwise it carries the blocking reason."""
CONDITION_CELL_REACHABLE = "CellReachable"
"""The hub reaches the cell, so that its report is current. Project plane only."""
CONDITION_SCHEDULED = "Scheduled"
"""Exactly one cell was found for the city. Project plane only."""
CONDITION_PROPAGATED = "Propagated"
"""False while a cell that answers has not reported on the present spec for longer than usual;
absent otherwise. Project plane only."""
CONDITION_FOUND_ON_HUB = "FoundOnHub"
"""False while the hub answers that it has no copy of a deployment that Karmada does not manage.
Cell plane only."""
CONDITION_REMOVED = "Removed"
"""False while a deletion waits, with what it waits for; never True, since the deployment is deleted
when nothing of it is left. Project plane only."""

# Workload conditions besides Available, while it has a rollout policy.
CONDITION_PROGRESSING = "Progressing"
"""The rollout of the newest template advances or is complete."""
CONDITION_RECONCILING = "Reconciling"
"""True while a rollout is not complete; absent otherwise."""
CONDITION_STALLED = "Stalled"
"""True while a rollout needs a person; absent otherwise."""

# Placement conditions besides Available.
CONDITION_SCHEDULED_IN_CITY = "Scheduled.<CITY>"
"""One for each city, in upper case, that no Location serves; removed when one does."""


def scheduled_in_city(city: str) -> str:
    """The type of a placement's condition for one city."""
    return CONDITION_SCHEDULED_IN_CITY.replace("<CITY>", city.upper())


def replacements(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Placement and city of each entry of :data:`ANNOTATION_REPLACED_BY`."""
    entries = annotations.get(ANNOTATION_REPLACED_BY, "").split(",")
    return [(placement, city) for placement, _, city in (e.partition("/") for e in entries) if city]
