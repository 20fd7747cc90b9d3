"""The gallery of hostile requests: each gets its answer, and the loop serves others meanwhile.

``bench/hostile.py`` measures how long a client waits for the requests of another, and the memory
of the server.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import pytest

from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.client.transport import HttpResponse
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.gallery.gallery import all_shapes, removals
from tests.support.apiserver.gallery.shapes import Sent, Shape
from tests.support.apiserver.gallery.webhooks import webhook_process
from tests.support.apiserver.loop_meter import LoopMeter
from tests.support.apiserver.widgets import Caller

pytestmark = pytest.mark.realtime

SHARE = 20
LONGEST_SECONDS = 0.1
"""CPU time of one turn of the loop: how long others wait, on a machine that does nothing else."""
ATTEMPTS = 3
"""A busy machine makes a turn longer, and never shorter: the shortest of these counts."""


@asynccontextmanager
async def stage() -> AsyncIterator[Caller]:
    async with embedded_server(
        SystemEnvironment(),
        crds_for=lambda _: [],
        cells=("dfw",),
        projects=(),
        worker=WorkerProcess(),
    ) as embedded:
        yield Caller(embedded, "cell/dfw")


async def send(caller: Caller, sent: Sent) -> HttpResponse:
    path, _, query = sent.path.partition("?")
    headers = {"content-type": sent.content_type, "accept": sent.accept}
    found = dict(parse_qsl(query, keep_blank_values=True))
    return await caller.send(sent.method, unquote(path), sent.raw, query=found, headers=headers)


async def clean_up(caller: Caller, shape: Shape) -> None:
    for sent in removals(shape):
        await send(caller, sent)


def faults(shape: Shape, response: HttpResponse) -> list[str]:
    found = []
    if response.status != shape.status:
        found.append(f"{response.status} instead of {shape.status}: {response.body[:300]!r}")
    # A path without a resource gets plain text, as from the real server.
    if response.status >= 400 and not shape.name.startswith("path: "):
        answer = json.loads(response.body)
        if (answer["kind"], answer["code"]) != ("Status", response.status):
            found.append(f"no Status: {response.body[:300]!r}")
    if sum(map(len, response.headers.values())) > 16_000:
        found.append("long headers")
    return found


async def test_every_request_gets_its_answer(tmp_path: Path) -> None:
    wrong: dict[str, list[str]] = {}
    names: Counter[str] = Counter()
    with webhook_process(tmp_path) as (url, bundle):
        async with stage() as caller:
            for shape in all_shapes(url, bundle, SHARE):
                names[shape.name] += 1
                for sent in shape.setup:
                    made = await send(caller, sent)
                    if made.status not in (200, 201):
                        wrong[f"{shape.name}: setup"] = [repr(made.body[:300])]
                if found := faults(shape, await send(caller, shape.sent)):
                    wrong[shape.name] = found
                await clean_up(caller, shape)
            plane = caller.embedded.store.planes["cell/dfw"]
            left = {
                table.resource: sorted(row.name for row in table.in_order(None))
                for table in plane.all_tables()
                if any(table.in_order(None))
            }

    assert wrong == {}
    assert names.total() == len(names) >= 240
    assert left == {"namespaces": ["default"]}


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_the_loop_serves_others_during_each_request_of_full_size(tmp_path: Path) -> None:
    slow: dict[str, float] = {}
    wrong: dict[str, list[str]] = {}
    with webhook_process(tmp_path) as (url, bundle):
        async with stage() as caller:
            for shape in all_shapes(url, bundle):
                for _ in range(ATTEMPTS):
                    meter = LoopMeter()
                    for sent in shape.setup:
                        await send(caller, sent)
                    prepared = shape.sent._replace(body=shape.sent.raw)
                    response = await meter.measure(send(caller, prepared))
                    if found := faults(shape, response):
                        wrong[shape.name] = found
                    await meter.measure(clean_up(caller, shape))
                    if meter.longest_seconds <= LONGEST_SECONDS:
                        break
                else:
                    slow[shape.name] = meter.longest_seconds

    assert wrong == {}
    assert slow == {}
