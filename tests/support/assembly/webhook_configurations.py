"""The webhook configurations that are installed, for a server without Services."""

from __future__ import annotations

from typing import Any

from scripts import roles


def webhooks_by_url() -> list[dict[str, Any]]:
    """With addresses in the place of Services."""
    return [
        {
            **manifest,
            "webhooks": [
                {**each, "clientConfig": _with_url(each["clientConfig"])}
                for each in manifest["webhooks"]
            ],
        }
        for manifest in roles.webhooks()
    ]


def _with_url(config: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in config.items() if key != "service"}
    return {**rest, "url": "https://webhooks.example/review"}
