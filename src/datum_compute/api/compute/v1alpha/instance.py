"""Instance: one running copy of a workload in one cell, and its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, Self, TypeVar, overload

import msgspec

from datum_compute.api import conditions as conditions_
from datum_compute.api.compute import constants, reasons
from datum_compute.api.compute.declared import declared
from datum_compute.api.compute.v1alpha.runtime import Runtime, Volume
from datum_compute.api.conditions import Condition, Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.references import LocationReference, TemplateMetadata
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "DEFAULT_CONDITIONS",
    "INSTANCES",
    "INSTANCE_CONDITIONS",
    "WAITING_FOR_CONTROLLER",
    "IPBlock",
    "IngressRule",
    "Instance",
    "InstanceController",
    "InstanceControllerStatus",
    "InstanceSpec",
    "InstanceStatus",
    "InstanceTemplate",
    "InterfaceAssignments",
    "InterfaceStatus",
    "NetworkInterface",
    "NetworkPolicy",
    "NetworkPolicyPeer",
    "NetworkPolicyPort",
    "NetworkReference",
    "SchedulingGate",
    "default_status",
    "read_template",
]

INSTANCES = Resource(constants.GROUP, constants.VERSION, "instances", "Instance")

INSTANCE_CONDITIONS = (
    declared(reasons.INSTANCE_PROGRAMMED),
    declared(reasons.INSTANCE_AVAILABLE),
    declared(reasons.INSTANCE_READY, inherits_from="Programmed and Available"),
    *(
        declared(reasons.KindCondition("Instance", each.condition))
        for each in reasons.DECIDED_GATES
    ),
    declared(reasons.INSTANCE_ASLEEP),
)
_TYPES = [each.type for each in INSTANCE_CONDITIONS]


class NetworkReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the Network.", required=True)] = ""
    namespace: Annotated[
        str, described("Namespace of the Network; that of the workload when unset.")
    ] = ""


class IPBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cidr: Annotated[str, described("Range of addresses.", required=True)] = ""
    except_: Annotated[
        tuple[str, ...],
        described("Ranges inside it that do not count.", list_type="atomic"),
    ] = msgspec.field(default=(), name="except")


class NetworkPolicyPeer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ip_block: Annotated[IPBlock | None, described("Addresses traffic may come from.")] = None


class NetworkPolicyPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    protocol: Annotated[str, described("Transport protocol; TCP when unset.")] = ""
    port: Annotated[
        int | str | None, described("Port by number or name; every port when unset.")
    ] = None
    end_port: Annotated[int | None, described("Last port of a range that begins at port.")] = None


class IngressRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ports: Annotated[
        tuple[NetworkPolicyPort, ...],
        described("Ports the rule opens; every port when empty.", list_type="atomic"),
    ] = ()
    from_: Annotated[
        tuple[NetworkPolicyPeer, ...],
        described("Where traffic may come from; anywhere when empty.", list_type="atomic"),
    ] = msgspec.field(default=(), name="from")


class NetworkPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ingress: Annotated[
        tuple[IngressRule, ...],
        described("Traffic that may reach the interface.", list_type="atomic"),
    ] = ()


class NetworkInterface(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    network: Annotated[
        NetworkReference, described("Network the interface is on.", required=True)
    ] = NetworkReference()
    network_policy: Annotated[NetworkPolicy | None, described("What may reach the interface.")] = (
        None
    )


class SchedulingGate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the gate.", required=True)] = ""


class InstanceController(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    template_hash: Annotated[
        str, described("Hash of the template the Instance was created from.", required=True)
    ] = ""
    scheduling_gates: Annotated[
        tuple[SchedulingGate, ...],
        described(
            "What must be ready first: no provider starts the Instance while any is left.",
            list_type="map",
            list_keys=["name"],
        ),
    ] = ()


class InstanceSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    runtime: Annotated[Runtime, described("What runs, and its size.", required=True)] = Runtime()
    network_interfaces: Annotated[
        tuple[NetworkInterface, ...],
        described("Networks the Instance is on.", required=True, minItems=1, list_type="atomic"),
    ] = ()
    volumes: Annotated[
        tuple[Volume, ...],
        described("Volumes to attach.", list_type="map", list_keys=["name"]),
    ] = ()
    location: Annotated[
        LocationReference | None, described("Where it runs; set by the controller.")
    ] = None
    controller: Annotated[
        InstanceController | None, described("Fields its controller maintains.")
    ] = None


class InstanceTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: Annotated[TemplateMetadata, described("Labels and annotations of each Instance.")] = (
        TemplateMetadata()
    )
    spec: Annotated[InstanceSpec, described("What each Instance is.", required=True)] = (
        InstanceSpec()
    )


def read_template(values: Mapping[str, Any]) -> InstanceTemplate | None:
    """A template given as JSON values; None where it cannot be read."""
    try:
        return msgspec.convert(values, InstanceTemplate)
    except msgspec.ValidationError:
        return None


class InterfaceAssignments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    network_ip: Annotated[str | None, described("Address on the network.")] = msgspec.field(
        default=None, name="networkIP"
    )
    external_ip: Annotated[str | None, described("Address reachable from outside.")] = (
        msgspec.field(default=None, name="externalIP")
    )


class InterfaceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    assignments: Annotated[InterfaceAssignments, described("Addresses of the interface.")] = (
        InterfaceAssignments()
    )


class InstanceControllerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    observed_template_hash: Annotated[
        str, described("Hash of the template that the provider runs.", required=True)
    ] = ""


class InstanceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[
        Conditions,
        described(
            f"{', '.join(_TYPES[:-1])} and {_TYPES[-1]}.",
            list_type="map",
            list_keys=["type"],
        ),
    ] = ()
    network_interfaces: Annotated[
        tuple[InterfaceStatus, ...],
        described("Addresses, in the order of the spec's interfaces.", list_type="atomic"),
    ] = ()
    controller: Annotated[InstanceControllerStatus | None, described("What the provider runs.")] = (
        None
    )
    suspended: Annotated[
        bool, described("Whether it is stopped: nothing of it runs until it is started.")
    ] = False


T = TypeVar("T")


class _Derived(Generic[T]):
    """``functools.cached_property`` without the lock that it has before Python 3.12, which costs
    more than what most of these compute."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class Instance(msgspec.Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    """One running copy of a workload."""

    # Derived values are cached: a reconcile of a deployment reads them from every Instance, and
    # a cached object is read in many reconciles.

    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceSpec = InstanceSpec()
    status: InstanceStatus = InstanceStatus()

    @_Derived
    def gates(self) -> tuple[str, ...]:
        """Names of the gates that still hold it back."""
        controller = self.spec.controller
        return tuple(gate.name for gate in controller.scheduling_gates) if controller else ()

    @_Derived
    def template_hash(self) -> str:
        """The revision it was created from; empty when it carries none."""
        return self.spec.controller.template_hash if self.spec.controller else ""

    @_Derived
    def observed_template_hash(self) -> str:
        """The revision that runs, as the provider reports; empty until it does."""
        controller = self.status.controller
        return controller.observed_template_hash if controller else ""

    @_Derived
    def suspended(self) -> bool:
        """Whether it is to be stopped, or to stay so; its status says whether it is."""
        return bool(self.metadata.annotations.get(constants.ANNOTATION_SUSPENDED))

    @_Derived
    def ready(self) -> bool:
        return conditions_.is_true(self.status.conditions, constants.CONDITION_READY)

    @_Derived
    def plan_key(self) -> tuple[object, ...]:
        """All that instance control reads: equal keys give equal plans."""
        meta = self.metadata
        own = (self.template_hash, self.ready, self.suspended)
        return meta.name, meta.uid, meta.labels, meta.deleting, *own

    @_Derived
    def programmed(self) -> bool:
        return conditions_.is_true(self.status.conditions, constants.CONDITION_PROGRAMMED)

    @_Derived
    def available(self) -> bool:
        return conditions_.is_true(self.status.conditions, constants.CONDITION_AVAILABLE)

    @_Derived
    def asleep(self) -> bool:
        return conditions_.is_true(self.status.conditions, constants.CONDITION_ASLEEP)

    @_Derived
    def serves(self) -> bool:
        """Whether its provider reports it programmed and available."""
        return self.programmed and self.available


WAITING_FOR_CONTROLLER = "Waiting for controller"

DEFAULT_CONDITIONS: Conditions = (
    *(
        Condition(type=type_, reason=reasons.REASON_PENDING, message=WAITING_FOR_CONTROLLER)
        for type_ in (
            constants.CONDITION_PROGRAMMED,
            constants.CONDITION_AVAILABLE,
            constants.CONDITION_READY,
        )
    ),
    *(
        Condition(type=each.condition, reason=each.initial_reason, message=each.initial_message)
        for each in reasons.DECIDED_GATES
        if each.initial_reason
    ),
)
"""What the server puts into the status of a new Instance: Unknown since 1970."""


def default_status() -> dict[str, Any]:
    return {"conditions": conditions_.to_wire(DEFAULT_CONDITIONS)}
