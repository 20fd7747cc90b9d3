"""The registered webhooks are the served ones, for exactly the writes they review."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from tests.support.rights.manifests import documents
from tests.support.webhooks.server import webhooks

CONFIGURATIONS = {
    "MutatingWebhookConfiguration": "mutate",
    "ValidatingWebhookConfiguration": "validate",
}


def registered(folder: str) -> dict[str, dict[str, Any]]:
    """The one webhook of each configuration, by its kind."""
    found = {}
    for _, document in documents(folder):
        if document["kind"] in CONFIGURATIONS:
            [found[document["kind"]]] = document["webhooks"]
    return found


@pytest.mark.parametrize("folder", ["project", "single"])
async def test_a_registered_path_is_served(folder: str) -> None:
    found = registered(folder)
    assert found.keys() == CONFIGURATIONS.keys()
    async with webhooks() as served:
        for kind, webhook in found.items():
            path = webhook["clientConfig"]["service"]["path"]
            code, answer = await served.send(path, b"{}")
            assert path.startswith(f"/{CONFIGURATIONS[kind]}-")
            assert code == 400, answer  # it is read as a review, and is none
        code, _ = await served.send("/elsewhere", b"{}")
        assert code == 404


@pytest.mark.parametrize("folder", ["project", "single"])
def test_a_webhook_is_registered_for_every_write_of_a_workload(folder: str) -> None:
    for webhook in registered(folder).values():
        [rule] = webhook["rules"]
        assert rule["apiGroups"] == [compute.WORKLOADS.group]
        assert rule["apiVersions"] == [compute.WORKLOADS.version]
        assert rule["resources"] == ["workloads"], "the status is written without asking"
        assert rule["operations"] == ["CREATE", "UPDATE"]
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["sideEffects"] == "None"
        assert webhook["admissionReviewVersions"] == ["v1"]
