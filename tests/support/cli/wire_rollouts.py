"""Workloads and WorkloadDeployments as JSON, for the state of a rollout."""

from __future__ import annotations

from typing import Any


def wire_workload(*cities: str, generation: int = 1, observed: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "generation": generation},
        "spec": {
            "placements": [
                {
                    "name": "default",
                    "cityCodes": list(cities),
                    "scaleSettings": {"minReplicas": 2},
                }
            ]
        },
        "status": {"observedGeneration": observed},
    }


def wire_deployment(
    city: str = "DFW",
    *,
    generation: int = 1,
    observed: int = 1,
    deleting: bool = False,
    conditions: list[dict[str, str]] | None = None,
    minimum: int = 2,
    **counters: int,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": f"web-default-{city.lower()}",
        "generation": generation,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {
            "placementName": "default",
            "cityCode": city,
            "scaleSettings": {"minReplicas": minimum},
        },
        "status": {
            "observedGeneration": observed,
            "conditions": conditions or [],
            **counters,
        },
    }


FULL: dict[str, Any] = {
    "replicas": 2,
    "updatedReplicas": 2,
    "readyReplicas": 2,
    "desiredReplicas": 2,
}


def blocked(type: str, reason: str) -> list[dict[str, str]]:
    return [{"type": type, "status": "False", "reason": reason, "message": "why"}]
