"""lightkube: typed and generic resources, apply, lists in pages, watches, conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import (
    create_namespaced_resource,
    load_in_cluster_generic_resources,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.rbac_v1 import PolicyRule
from lightkube.resources.core_v1 import ConfigMap, Secret
from lightkube.resources.rbac_authorization_v1 import Role
from lightkube.types import CascadeType, PatchType

from tests.support.clients.gadgets import CONFIG_MAPS, GADGETS_PATH, GadgetPlane, gadget

pytestmark = [pytest.mark.clients, pytest.mark.realtime]

Gadget = create_namespaced_resource("example.com", "v1", "Gadget", "gadgets")


@pytest.fixture
def client(plane: GadgetPlane) -> Iterator[Any]:
    config = KubeConfig.from_file(str(plane.kubeconfig))
    with Client(config=config, namespace="default", field_manager="ana") as client:
        yield client


def config_map(name: str, **data: str) -> Any:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"app": "a"}), data=data)


def test_typed_objects_are_created_replaced_patched_and_deleted(
    plane: GadgetPlane, client: Any
) -> None:
    made = client.create(config_map("one", color="red"))
    made.data["color"] = "blue"
    replaced = client.replace(made)
    with pytest.raises(ApiError) as stale:
        client.replace(made)
    client.patch(ConfigMap, "one", {"data": {"size": "2"}}, patch_type=PatchType.MERGE)
    client.set(ConfigMap, "one", labels={"app": None, "team": "x"})
    client.create(Secret(metadata=ObjectMeta(name="key"), stringData={"key": "text"}))
    rule = PolicyRule(apiGroups=[""], resources=["configmaps"], verbs=["get"])
    client.create(Role(metadata=ObjectMeta(name="reader"), rules=[rule]))

    assert stale.value.status.reason == "Conflict"
    assert replaced.data == {"color": "blue"}
    stored = plane.get(f"{CONFIG_MAPS}/one")
    assert stored["data"] == {"color": "blue", "size": "2"}
    assert stored["metadata"]["labels"] == {"team": "x"}
    assert client.get(Secret, "key").data == {"key": "dGV4dA=="}
    assert client.get(Role, "reader").rules == [rule]
    client.delete(ConfigMap, "one", cascade=CascadeType.FOREGROUND)
    assert plane.get(f"{CONFIG_MAPS}/one") is None
    with pytest.raises(ApiError) as gone:
        client.get(ConfigMap, "one")
    assert gone.value.status.code == 404


def test_a_dry_run_stores_nothing(plane: GadgetPlane, client: Any) -> None:
    made = client.create(config_map("one", color="red"), dry_run=True)

    assert made.data == {"color": "red"}
    assert plane.get(f"{CONFIG_MAPS}/one") is None


def test_apply_takes_and_gives_up_fields(plane: GadgetPlane, client: Any) -> None:
    client.apply(config_map("one", color="red", size="1"))
    client.apply(config_map("one", shape="round"), field_manager="ben")
    with pytest.raises(ApiError) as conflict:
        client.apply(config_map("one", color="blue"), field_manager="ben")
    client.apply(config_map("one", color="blue"), field_manager="ben", force=True)
    client.apply(Gadget(**gadget("one", text="a")))

    assert conflict.value.status.code == 409
    assert plane.get(f"{CONFIG_MAPS}/one")["data"] == {"color": "blue", "size": "1"}
    (entry,) = plane.get(f"{GADGETS_PATH}/one")["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("ana", "Apply")


def test_generic_resources_come_from_definitions(plane: GadgetPlane, client: Any) -> None:
    load_in_cluster_generic_resources(client)
    client.create(Gadget(**gadget("one", replicas=1)))
    client.patch(Gadget.Scale, "one", {"spec": {"replicas": 4}}, patch_type=PatchType.MERGE)
    status = {"conditions": [{"type": "Ready", "status": "True"}], "replicas": 4}
    client.patch(Gadget.Status, "one", {"status": status}, patch_type=PatchType.MERGE)

    found = client.wait(Gadget, "one", for_conditions=["Ready"])

    assert found.spec == {"replicas": 4}
    assert client.get(Gadget.Scale, "one").status.replicas == 4


def test_a_list_arrives_in_pages_and_a_watch_goes_on_from_it(
    plane: GadgetPlane, client: Any
) -> None:
    for number in range(25):
        client.create(config_map(f"n{number:02}"))
    listed = client.list(ConfigMap, chunk_size=10, labels={"app": "a"})
    names = [one.metadata.name for one in listed]
    client.create(config_map("one"))
    client.delete(ConfigMap, "one")
    seen = []

    for kind, found in client.watch(
        ConfigMap, resource_version=listed.resourceVersion, labels={"app": "a"}
    ):
        seen.append((kind, found.metadata.name))
        if kind == "DELETED":
            break

    assert names == [f"n{number:02}" for number in range(25)]
    assert seen == [("ADDED", "one"), ("DELETED", "one")]
    client.deletecollection(ConfigMap)
    assert plane.get(CONFIG_MAPS)["items"] == []
