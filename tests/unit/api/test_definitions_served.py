"""The embedded server accepts every definition and stores a full object of each kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.crds import all_crds
from datum_compute.api.kinds import KINDS, Kind
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.testing.server import embedded_server
from tests.support.api.complete_objects import complete_object
from tests.support.api.definitions import schemas


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.resource.kind))
async def test_a_full_object_is_stored_unchanged_on_every_plane_of_its_kind(kind: Kind) -> None:
    found = schemas(kind.resource.plural)
    namespace = "default" if kind.resource.namespaced else ""

    async with embedded_server(cells=("demo",), projects=("demo",)) as embedded:
        for plane_type in kind.planes:
            plane = plane_type.plane("" if plane_type.is_singleton else "demo")
            embedded.server.ensure_plane(plane)
            client = embedded.client(plane)
            body = {"metadata": {"name": "whole"}, "spec": complete_object(found[".spec"])}
            created = await client.create(kind.resource, body, namespace)
            assert content(created, "spec") == complete_object(found[".spec"])
            if ".status" not in found:
                continue
            report = merge({"status": complete_object(found[".status"])})
            reported = await client.patch(
                kind.resource, "whole", report, namespace, subresource="status"
            )
            assert content(reported, "status") == complete_object(found[".status"])


def content(obj: Object, part: str) -> Any:
    return json.loads(bytes(getattr(obj, part)))


async def test_every_definition_can_be_created_by_hand() -> None:
    async with embedded_server(crds_for=lambda _: [], cells=(), projects=()) as embedded:
        hub = embedded.client("hub")
        for crd in all_crds():
            await hub.create(core.CUSTOM_RESOURCE_DEFINITIONS, crd)

        found = (await hub.list(core.CUSTOM_RESOURCE_DEFINITIONS)).items

    conditions = {obj.name: content(obj, "status")["conditions"] for obj in found}
    assert set(conditions) == {crd["metadata"]["name"] for crd in all_crds()}
    for each in conditions.values():
        assert {one["type"]: one["status"] for one in each} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
