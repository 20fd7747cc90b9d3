"""Views read present fields and default absent ones."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from datum_compute.api import conditions, core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.kinds import KINDS
from datum_compute.api.meta import Object, Unreadable
from datum_compute.api.networking import v1alpha as networking

VIEWS = [
    *(kind.view for kind in KINDS),
    core.Namespace,
    core.ConfigMap,
    core.Lease,
    core.SubjectAccessReview,
    core.SelfSubjectReview,
]


def decode(body: str) -> Object:
    return Object.from_wire(body.encode())


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: str(view.__name__))
def test_an_object_with_only_a_name_decodes(view: type[msgspec.Struct]) -> None:
    obj = decode('{"metadata": {"name": "a"}, "spec": {}, "status": {}, "data": {}}')

    assert obj.view(view).metadata.name == "a"  # type: ignore[attr-defined]


def test_a_field_with_an_irregular_name_is_read() -> None:
    instance = decode(
        """{"spec": {"networkInterfaces": [{"network": {"name": "n"}, "networkPolicy": {
              "ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}],
                           "ports": [{"port": "http"}, {"port": 80}]}]}}]},
            "status": {"networkInterfaces": [{"assignments": {
              "networkIP": "10.128.0.2", "externalIP": "192.0.2.1"}}]}}"""
    ).view(compute.Instance)

    (rule,) = instance.spec.network_interfaces[0].network_policy.ingress  # type: ignore[union-attr]
    assert rule.from_[0].ip_block.except_ == ("10.0.0.0/8",)  # type: ignore[union-attr]
    assert [port.port for port in rule.ports] == ["http", 80]
    assert instance.status.network_interfaces[0].assignments.network_ip == "10.128.0.2"
    assert instance.status.network_interfaces[0].assignments.external_ip == "192.0.2.1"


def test_gates_and_hashes_are_empty_without_a_controller() -> None:
    instance = decode('{"spec": {}}').view(compute.Instance)

    assert instance.gates == ()
    assert instance.template_hash == ""
    assert instance.observed_template_hash == ""
    assert not instance.ready


@pytest.mark.parametrize(
    ("annotations", "generation"),
    [
        ('{"compute.datumapis.com/source-generation": "7"}', 7),
        ("{}", 3),
        ('{"compute.datumapis.com/source-generation": "x"}', 3),
    ],
    ids=["stamped", "absent", "unreadable"],
)
def test_the_source_generation_is_the_stamped_one(annotations: str, generation: int) -> None:
    body = f'{{"metadata": {{"generation": 3, "annotations": {annotations}}}}}'

    assert decode(body).view(compute.WorkloadDeployment).source_generation == generation


def test_counters_are_written_even_at_zero() -> None:
    deployment = compute.deployment_status_to_wire(compute.WorkloadDeploymentStatus())
    workload = compute.workload_status_to_wire(
        compute.WorkloadStatus(placements=(compute.PlacementStatus(name="default"),))
    )

    counters = {
        "replicas": 0,
        "currentReplicas": 0,
        "updatedReplicas": 0,
        "desiredReplicas": 0,
        "readyReplicas": 0,
    }
    assert deployment.items() >= (counters | {"observedGeneration": 0}).items()
    assert workload.items() >= (counters | {"observedGeneration": 0, "deployments": 0}).items()
    assert workload["placements"][0].items() >= counters.items()


def test_a_written_view_reads_back_the_same() -> None:
    now = datetime(2026, 5, 4, 3, 2, 1, 999, tzinfo=UTC)
    status = compute.WorkloadDeploymentStatus(
        conditions=conditions.with_condition(
            (), "Available", "True", "StableInstanceFound", "", now=now, observed_generation=2
        ),
        replicas=3,
        observed_generation=2,
    )

    body = msgspec.json.encode({"status": compute.deployment_status_to_wire(status)})

    assert Object.from_wire(body).view(compute.WorkloadDeployment).status == status


def test_a_location_view_has_its_city() -> None:
    body = '{"spec": {"topology": {"topology.datum.net/city-code": "DFW"}}}'

    assert decode(body).view(networking.Location).city_code == "DFW"
    assert decode(body).view(networking.LocationBinding).city_code == "DFW"


def test_names_of_karmada_objects() -> None:
    assert karmada.execution_namespace("dfw") == "karmada-es-dfw"
    assert karmada.binding_name("web-default-dfw", "WorkloadDeployment") == (
        "web-default-dfw-workloaddeployment"
    )


def test_admission_reviews_are_decoded() -> None:
    may = decode('{"status": {"allowed": false, "denied": true, "reason": "no such role"}}')
    who = decode(
        """{"status": {"userInfo": {"username": "ada", "uid": "1", "groups": ["dev"],
              "extra": {"iam.miloapis.com/parent-name": ["demo"]}}}}"""
    )

    verdict = may.view(core.SubjectAccessReview).status
    assert (verdict.allowed, verdict.denied, verdict.reason) == (False, True, "no such role")
    assert who.view(core.SelfSubjectReview).status.user_info == core.UserInfo(
        username="ada",
        uid="1",
        groups=("dev",),
        extra={"iam.miloapis.com/parent-name": ("demo",)},
    )


def test_views_of_equal_specs_share_their_decoded_spec() -> None:
    body = '{"metadata": {"name": "%s"}, "spec": {"cityCode": "%s"}, "status": {"replicas": %d}}'
    first, second, other = (
        decode(body % values).view(compute.WorkloadDeployment)
        for values in (("a", "DFW", 1), ("b", "DFW", 2), ("a", "LHR", 1))
    )

    assert first.spec is second.spec
    assert (first.metadata.name, second.metadata.name) == ("a", "b")
    assert (first.status.replicas, second.status.replicas) == (1, 2)
    assert other.spec.city_code == "LHR"


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: str(view.__name__))
def test_a_shared_spec_is_immutable(view: type[msgspec.Struct]) -> None:
    spec = getattr(decode('{"spec": {}}').view(view), "spec", None)

    assert spec is None or spec.__struct_config__.frozen


def test_every_part_that_cannot_be_read_is_named() -> None:
    obj = decode('{"kind": "Instance", "metadata": {"name": "a"}, "spec": 7, "status": [1]}')

    with pytest.raises(Unreadable, match=r"spec: .*`int`; status: .*`array`"):
        obj.view(compute.Instance)

    assert obj.has_unreadable_status


@pytest.mark.parametrize(
    "manifest",
    [
        '{"kind": "Namespace", "metadata": {"name": "a"}}',
        '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ["a"]}}',
        '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"b": 1}}}',
        "7",
    ],
)
def test_a_work_whose_manifest_names_no_object_cannot_be_read(manifest: str) -> None:
    work = decode(f'{{"kind": "Work", "spec": {{"workload": {{"manifests": [{manifest}]}}}}}}')

    with pytest.raises(Unreadable, match=r"spec: manifests\[0\]: .* at `\$.workload`"):
        work.view(karmada.Work)
