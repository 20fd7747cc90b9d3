"""When a pull is tried again, on a double of the engine and on virtual time."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from datum_compute.providers.container.engine import ContainerEngine, EngineRefused
from datum_compute.providers.container.images.pull import FIRST_RETRY_SECONDS, Images, PullSecret
from datum_compute.providers.errors import Rejected
from datum_compute.testing import loop

IMAGE = "registry.example/acme/web:1"


def secret(password: str) -> PullSecret:
    auth = base64.b64encode(f"ana:{password}".encode()).decode()
    content = json.dumps({"auths": {"registry.example": {"auth": auth}}})
    return "Secret keys", content.encode()


@dataclass
class RegistryWithPassword:
    """An engine whose registry takes one credential."""

    right: str
    pulls: list[str] = field(default_factory=list)
    pulled: bool = False

    async def image(self, reference: str) -> dict[str, Any] | None:
        return {} if self.pulled else None

    async def pull(self, reference: str, credentials: str = "") -> None:
        given = json.loads(base64.urlsafe_b64decode(credentials)) if credentials else {}
        self.pulls.append(given.get("password", ""))
        if self.pulls[-1] != self.right:
            raise EngineRefused(500, "unauthorized: authentication required")
        self.pulled = True


async def look(images: Images, *secrets: PullSecret) -> float:
    """After how many seconds the Instance is looked at again; 0 where it runs, or is woken."""
    try:
        await images.ensure(IMAGE, "uid", secrets)
    except Rejected as error:
        return error.delay or 0.0
    finally:
        await asyncio.sleep(0.1)
    return 0.0


@pytest.mark.parametrize("failures", [1, 3, 8])
def test_a_mended_secret_is_tried_within_ten_seconds_however_often_the_pull_failed(
    failures: int,
) -> None:
    async def run() -> None:
        engine = RegistryWithPassword("right")
        images = Images(lambda: cast(ContainerEngine, engine), lambda uid: None)
        while len(engine.pulls) < failures:
            waited = await look(images, secret("wrong"))
            await asyncio.sleep(waited)
        assert await look(images, secret("wrong")) <= FIRST_RETRY_SECONDS
        before = len(engine.pulls)

        assert await look(images, secret("right")) == 0

        assert engine.pulls[before:] == ["right"]
        assert await images.ensure(IMAGE, "uid", [secret("right")])

    loop.run(run())


def test_looking_at_a_secret_again_does_not_pull_more_often() -> None:
    async def run() -> None:
        engine = RegistryWithPassword("right")
        images = Images(lambda: cast(ContainerEngine, engine), lambda uid: None)
        for _ in range(600):
            await look(images, secret("wrong"))
            await asyncio.sleep(0.9)

        # After 10, 20, 40, 80, 160 and 300 seconds.
        assert len(engine.pulls) <= 6

    loop.run(run())
