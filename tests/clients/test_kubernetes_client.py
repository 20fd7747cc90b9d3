"""The official Python client: typed objects, dynamic client, watches, informer, election."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, UnprocessibleEntityError
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.support.clients.gadgets import (
    CONFIG_MAPS,
    GADGETS_PATH,
    GadgetPlane,
    gadget,
)

pytestmark = [pytest.mark.clients, pytest.mark.realtime]

APPLY = "application/apply-patch+yaml"


@pytest.fixture
def api(plane: GadgetPlane) -> Iterator[Any]:
    with config.new_client_from_config(str(plane.kubeconfig)) as api:
        yield api


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(
        api_version="v1",
        kind="ConfigMap",
        metadata=client.V1ObjectMeta(name=name, labels={"app": "a"}),
        data=data,
    )


def test_typed_objects_are_created_read_replaced_patched_and_deleted(
    plane: GadgetPlane, core: Any
) -> None:
    made = core.create_namespaced_config_map("default", config_map("one", color="red"))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp.tzinfo is not None

    made.data["color"] = "blue"
    replaced = core.replace_namespaced_config_map("one", "default", made)
    with pytest.raises(client.ApiException) as stale:
        core.replace_namespaced_config_map("one", "default", made)
    core.patch_namespaced_config_map("one", "default", {"data": {"size": "2"}})

    assert stale.value.status == 409
    assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)
    listed = core.list_namespaced_config_map("default", label_selector="app=a")
    assert [(one.metadata.name, one.data) for one in listed.items] == [
        ("one", {"color": "blue", "size": "2"})
    ]
    core.delete_namespaced_config_map("one", "default")
    assert plane.get(f"{CONFIG_MAPS}/one") is None


def test_secrets_namespaces_accounts_and_roles_are_typed_too(plane: GadgetPlane, api: Any) -> None:
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="team")))
    secret = client.V1Secret(
        metadata=client.V1ObjectMeta(name="key"), string_data={"key": "text"}, type="Opaque"
    )
    core.create_namespaced_secret("team", secret)
    account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot"))
    core.create_namespaced_service_account("team", account)
    rule = client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["get"])
    rbac.create_namespaced_role(
        "team", client.V1Role(metadata=client.V1ObjectMeta(name="reader"), rules=[rule])
    )
    token = core.create_namespaced_service_account_token(
        "robot", "team", client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600)
        )
    )  # fmt: skip

    assert core.read_namespaced_secret("key", "team").data == {"key": "dGV4dA=="}
    assert rbac.read_namespaced_role("reader", "team").rules == [rule]
    review = client.AuthenticationV1Api(api).create_token_review(
        client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token.status.token))
    )
    assert review.status.user.username == "system:serviceaccount:team:robot"
    core.delete_namespace("team")
    plane.wait_until(lambda: plane.get("/api/v1/namespaces/team") is None, "the namespace stays")


def test_definitions_and_custom_objects_are_typed_or_plain(plane: GadgetPlane, api: Any) -> None:
    (definition,) = client.ApiextensionsV1Api(api).list_custom_resource_definition().items
    custom = client.CustomObjectsApi(api)
    where = ("example.com", "v1", "default", "gadgets")
    custom.create_namespaced_custom_object(*where, gadget("one", text="a"))
    custom.patch_namespaced_custom_object(*where, "one", {"spec": {"replicas": 3}})
    custom.patch_namespaced_custom_object_status(*where, "one", {"status": {"replicas": 2}})
    scale = custom.get_namespaced_custom_object_scale(*where, "one")

    assert definition.status.accepted_names.kind == "Gadget"
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 2)
    stored = plane.get(f"{GADGETS_PATH}/one")
    assert stored["spec"] == {"text": "a", "replicas": 3}
    assert stored["status"] == {"replicas": 2}


def test_a_delete_with_preconditions_deletes_that_object_alone(
    plane: GadgetPlane, core: Any
) -> None:
    made = core.create_namespaced_config_map("default", config_map("one"))
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    right = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=made.metadata.uid))

    with pytest.raises(client.ApiException) as refused:
        core.delete_namespaced_config_map("one", "default", body=wrong)
    kept = plane.get(f"{CONFIG_MAPS}/one")
    core.delete_namespaced_config_map("one", "default", body=right)

    assert refused.value.status == 409
    assert kept is not None
    assert plane.get(f"{CONFIG_MAPS}/one") is None


def test_server_side_apply_by_typed_objects_keeps_other_managers_fields(
    plane: GadgetPlane, core: Any
) -> None:
    def apply(manager: str, force: bool | None = None, **data: str) -> Any:
        body = client.V1ConfigMap(
            api_version="v1",
            kind="ConfigMap",
            metadata=client.V1ObjectMeta(name="one"),
            data=data,
        )
        return core.patch_namespaced_config_map(
            "one", "default", body, field_manager=manager, force=force, _content_type=APPLY
        )

    apply("ana", color="red", size="1")
    applied = apply("ben", shape="round")
    with pytest.raises(client.ApiException) as conflict:
        apply("ben", shape="round", color="blue")
    apply("ben", force=True, shape="round", color="blue")
    apply("ana", color="blue")

    assert {one.manager for one in applied.metadata.managed_fields} == {"ana", "ben"}
    assert conflict.value.status == 409
    assert plane.get(f"{CONFIG_MAPS}/one")["data"] == {"color": "blue", "shape": "round"}


def test_a_watch_continues_from_the_revision_of_a_list(plane: GadgetPlane, core: Any) -> None:
    core.create_namespaced_config_map("default", config_map("before"))
    listed = core.list_namespaced_config_map("default")
    core.create_namespaced_config_map("default", config_map("one"))
    core.patch_namespaced_config_map("one", "default", {"data": {"a": "b"}})
    core.delete_namespaced_config_map("one", "default")
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        "default",
        resource_version=listed.metadata.resource_version,
        timeout_seconds=1,
    )

    seen = [(event["type"], event["object"].metadata.name) for event in stream]

    assert seen == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]


def test_the_dynamic_client_finds_kinds_by_discovery(plane: GadgetPlane, api: Any) -> None:
    dynamic = DynamicClient(api)
    gadgets = dynamic.resources.get(api_version="example.com/v1", kind="Gadget")
    gadgets.create(body=gadget("one", text="a"))
    gadgets.patch(
        body={"metadata": {"name": "one"}, "spec": {"replicas": 1}},
        namespace="default",
        content_type="application/merge-patch+json",
    )
    gadgets.status.patch(
        body={"metadata": {"name": "one"}, "status": {"phase": "Ready"}},
        namespace="default",
        content_type="application/merge-patch+json",
    )
    gadgets.server_side_apply(body=gadget("two", text="b"), field_manager="ana")
    with pytest.raises(ConflictError):
        gadgets.server_side_apply(body=gadget("two", text="c"), field_manager="ben")
    with pytest.raises(UnprocessibleEntityError):
        gadgets.create(body=gadget("three", replicas=-1))
    with pytest.raises(NotFoundError):
        gadgets.get(name="three", namespace="default")

    found = gadgets.get(namespace="default")
    assert [(one.metadata.name, one.spec.text) for one in found.items] == [
        ("one", "a"),
        ("two", "b"),
    ]
    assert plane.get(f"{GADGETS_PATH}/one")["status"] == {"phase": "Ready"}
    watched = gadgets.watch(namespace="default", timeout=1, resource_version="0")
    assert [(one["type"], one["object"].metadata.name) for one in watched] == [
        ("ADDED", "one"),
        ("ADDED", "two"),
    ]
    gadgets.delete(name="one", namespace="default")
    assert plane.get(f"{GADGETS_PATH}/one") is None


def test_an_informer_follows_every_change(plane: GadgetPlane, core: Any) -> None:
    core.create_namespaced_config_map("default", config_map("before"))
    informer = SharedInformer(core.list_namespaced_config_map, namespace="default")
    seen: list[tuple[str, str]] = []
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(
            kind, lambda found, kind=kind: seen.append((kind, found.metadata.name))
        )
    informer.start()
    try:
        plane.wait_until(lambda: seen == [("ADDED", "before")], "the list was not taken over")
        core.create_namespaced_config_map("default", config_map("one"))
        core.patch_namespaced_config_map("one", "default", {"data": {"a": "b"}})
        core.delete_namespaced_config_map("before", "default")
        plane.wait_until(lambda: len(seen) == 4, "not every change arrived")
    finally:
        informer.stop()

    assert seen[1:] == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "before")]
    assert [one.data for one in informer.cache.list()] == [{"a": "b"}]


def test_a_candidate_is_elected_by_a_lease(plane: GadgetPlane) -> None:
    config.load_kube_config(str(plane.kubeconfig))
    leads = threading.Event()
    election = leaderelection.LeaderElection(
        electionconfig.Config(
            LeaseLock("gadgets", "default", "ana"),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=leads.set,
            onstopped_leading=lambda: None,
        )
    )
    candidate = threading.Thread(target=election.run, daemon=True)
    candidate.start()
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/gadgets"
    try:
        assert leads.wait(10)
        first = plane.get(path)["spec"]
        plane.wait_until(
            lambda: plane.get(path)["spec"]["renewTime"] > first["renewTime"],
            "the lease is not renewed",
        )
        assert first["holderIdentity"] == "ana"
    finally:
        # Another holds the lease: the candidate gives up.
        taken = {"spec": {"holderIdentity": "ben", "leaseDurationSeconds": 30}}
        plane.send("PATCH", path, taken, content_type="application/merge-patch+json")
        candidate.join(20)
    assert not candidate.is_alive()
