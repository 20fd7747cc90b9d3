"""Discovery lists kinds, each in the preferred version of its group."""

from __future__ import annotations

import pytest

from datum_compute.client import errors
from datum_compute.client.discovery import preferred_versions, served_kinds
from tests.support.apiserver.widgets import WIDGETS, widget_server


async def test_a_served_kind_is_its_resource_and_subresources_are_left_out() -> None:
    async with widget_server() as caller:
        versions = await preferred_versions(caller.client)
        found = await served_kinds(caller.client, "example.com/v1")
        core = await served_kinds(caller.client, "v1")

        assert {"v1", "example.com/v1"} <= set(versions)
        assert [kind.resource("example.com/v1") for kind in found] == [WIDGETS]
        assert {"list", "delete"} <= set(found[0].verbs)
        assert "namespaces" in [kind.name for kind in core]


async def test_a_group_that_is_not_served_raises() -> None:
    async with widget_server() as caller:
        with pytest.raises((errors.NotFound, errors.NotServed)):
            await served_kinds(caller.client, "nowhere.example.com/v1")
