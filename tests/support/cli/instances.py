"""Instances as the CLI reads them, with chosen conditions."""

from __future__ import annotations

from typing import Any


def instance(**conditions: tuple[str, str]) -> dict[str, Any]:
    found = [
        {"type": kind, "status": status, "reason": reason}
        for kind, (status, reason) in conditions.items()
    ]
    return {"metadata": {"name": "api-default-dfw-3"}, "status": {"conditions": found}}


GRANTED = ("True", "QuotaAvailable")
