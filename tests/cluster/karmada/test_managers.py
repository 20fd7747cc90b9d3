"""Managers as their overlays deploy them, on real Karmada: checks, election, admission, rights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client import errors
from tests.support.cluster.karmada import KarmadaClusters
from tests.support.cluster.karmada_stage import NAMESPACE, karmada_federation
from tests.support.cluster.managers.used_rights import audited, explained, granted
from tests.support.federation import data
from tests.support.federation.lifecycle import FIRST, Lifecycle

pytestmark = [pytest.mark.cluster, pytest.mark.karmada, pytest.mark.realtime]

WITHIN = 120.0


async def test_two_replicas_pass_their_check_one_leads_and_both_review(
    clusters: KarmadaClusters, tmp_path: Path
) -> None:
    async with karmada_federation(clusters, tmp_path) as stage:
        for name, pods in stage.managers.items():
            assert len(pods) == 2
            code, found = await stage.check(name)
            assert (code, name) == (0, name), found
        with pytest.raises(errors.Invalid, match="cityCodes"):
            wrong = replace(FIRST, cities=("XYZ",)).to_create()
            await stage.project.create(compute.WORKLOADS, wrong, NAMESPACE)
        before = stage.webhooks.calls
        await stage.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
        assert stage.webhooks.calls - before == 2, "mutation by one, validation by the other"
        await Lifecycle(stage, within=WITHIN).settled(FIRST)
        for plane in (clusters.management, *clusters.cells.values()):
            path = "/apis/coordination.k8s.io/v1/namespaces/compute-system/leases"
            [lease] = plane.request("GET", path).body["items"]
            assert lease["spec"]["holderIdentity"]
        await stage.empty()


async def test_a_project_lives_and_is_deleted_with_the_rights_of_the_roles(
    clusters: KarmadaClusters, tmp_path: Path
) -> None:
    """No request is denied: the federation checks that at its end. Every right is used, or the
    page about rights says what it is for."""
    async with karmada_federation(clusters, tmp_path) as stage:
        steps = Lifecycle(stage, within=WITHIN)
        await steps.run()
        await stage.project.create(core.CONFIG_MAPS, data.config_map(), NAMESPACE)
        await stage.project.create(core.SECRETS, data.secret(), NAMESPACE)
        named = replace(FIRST, data=("ConfigMap/settings", "Secret/keys"))
        await stage.project.create(compute.WORKLOADS, named.to_create(), NAMESPACE)
        await steps.settled(named)
        await stage.empty()
        await steps.delete_the_project()
        used = audited(clusters.calls())
    unexplained = "\n".join(map(str, sorted(granted() - used - explained())))
    assert unexplained == "", "used by nothing, and explained nowhere"
    assert explained() <= granted(), "explained, and granted to nobody"
