"""Webhook configurations of a bad shape, and webhooks that answer badly.

As a program it serves those webhooks: it prints their address as one line of JSON, and ends with
its standard input.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.apiserver.gallery.shapes import (
    CONFIG_MAPS,
    MERGE_PATCH,
    Shape,
    apply,
    config_map,
    patch,
    post,
    texts,
)
from tests.support.apiserver.webhook_server import webhook_server
from tests.support.paths import ROOT

VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
LONG = "x" * 1_000_000


def _patch(operations: Any) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


ANSWERS: dict[str, dict[str, Any]] = {
    "/allow": {"allowed": True},
    "/another": {"allowed": True, "uid": "another"},
    "/maybe": {"allowed": "perhaps"},
    "/long": {"allowed": False, "status": {"message": LONG}},
    "/code": {"allowed": False, "status": {"code": 10**9, "message": "burn", "reason": "Burn"}},
    "/warn": {"allowed": True, "warnings": [f"{n} {'x' * 100}" for n in range(10_000)]},
    "/lines": {"allowed": True, "warnings": ["a\r\nSet-Cookie: b"]},
    "/large": {"allowed": True, "more": LONG * 5},
    "/base64": {"allowed": True, "patchType": "JSONPatch", "patch": "!"},
    "/adds": _patch([{"op": "add", "path": f"/data/n{n}", "value": ""} for n in range(10_000)]),
    "/keys": _patch([{"op": "add", "path": "/data", "value": texts(60_000)}]),
    "/some": _patch([{"op": "add", "path": "/data", "value": texts(2_000)}]),
    "/copies": _patch([{"op": "copy", "from": "/data", "path": "/data/-"}] * 60),
    "/rename": _patch([{"op": "replace", "path": "/metadata/name", "value": "two"}]),
    "/remove": _patch([{"op": "remove", "path": "/metadata"}]),
}
SILENT = "/silent"


def configuration(*hooks: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "hostile"}, "webhooks": list(hooks)}


def hook(url: str, bundle: str, path: str, **more: Any) -> dict[str, Any]:
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"]}
    return {
        "name": "one.hostile.example",
        "clientConfig": {"url": f"{url}{path}", "caBundle": bundle},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "failurePolicy": "Ignore",
        "rules": [rule | {"resources": ["configmaps"]}],
    } | more


def configurations(share: int, url: str, bundle: str) -> Iterator[Shape]:
    one = hook(url, bundle, "/allow")

    def made(name: str, status: int, *hooks: dict[str, Any]) -> Shape:
        return Shape(f"webhooks: {name}", post(VALIDATING, configuration(*hooks)), status)

    many = [one | {"name": f"w{number}.hostile.example"} for number in range(1_000)]
    yield made("configured", 201, *many[:32])
    yield made("more than allowed", 422, *many)
    yield made("faults", 422, *[{"name": "x"}] * 32)
    yield made("rules", 201, one | {"rules": one["rules"] * 1_000})
    yield made("more rules than allowed", 422, one | {"rules": one["rules"] * 10_000})
    expressions = [{"key": f"k{n}", "operator": "Exists"} for n in range(2_000)]
    yield made("a selector", 201, one | {"objectSelector": {"matchExpressions": expressions}})
    trusted = {"clientConfig": {"url": url, "caBundle": "!" * 100_000}}
    yield made("a bundle that is none", 422, one | trusted)
    conditions = [{"name": f"c{n}", "expression": "true"} for n in range(64)]
    yield made("conditions", 201, one | {"matchConditions": conditions})
    conditions = [{"name": f"c{n}", "expression": "true"} for n in range(1_000)]
    yield made("more conditions than allowed", 422, one | {"matchConditions": conditions})
    deep = [{"name": "c", "expression": "(" * 5_000 + "true" + ")" * 5_000}]
    yield made("a deep condition", 422, one | {"matchConditions": deep})
    yield made("a URL with a user", 422, one | {"clientConfig": {"url": "https://a@b"}})


def reviews(share: int, url: str, bundle: str) -> Iterator[Shape]:
    create = post(CONFIG_MAPS, config_map(data={"a": "b"}))

    def answered(name: str, path: str, status: int, sent: Any = create, **more: Any) -> Shape:
        kind = MUTATING if "patch" in ANSWERS.get(path, {}) else VALIDATING
        setup = post(kind, configuration(hook(url, bundle, path, **more)))
        return Shape(f"webhook: {name}", sent, status, (setup,))

    large = post(CONFIG_MAPS, config_map(data=texts(60_000)))
    yield answered("of a large object", "/allow", 413, large)
    text = post(CONFIG_MAPS, config_map(data={"a": "x" * 500_000}))
    yield answered("of a long text", "/allow", 201, text)
    yield answered("an answer to another request", "/another", 201)
    yield answered("an answer that is none", "/maybe", 201)
    yield answered("a long refusal", "/long", 400)
    yield answered("a refusal with a code that is none", "/code", 400)
    yield answered("warnings", "/warn", 201)
    yield answered("a warning of several lines", "/lines", 201)
    yield answered("a large answer", "/large", 201)
    yield answered("a patch that is no base64", "/base64", 201)
    yield answered("a patch of 10,000 operations", "/adds", 201)
    yield answered("a patch of 60,000 keys", "/keys", 201)
    applied = apply(f"{CONFIG_MAPS}/one", config_map(data={}))
    yield answered("a patch of 60,000 keys to an apply", "/keys", 201, applied)
    yield answered("a patch of 2,000 keys", "/some", 201)
    yield answered("a patch of the name of an apply", "/rename", 400, applied)
    yield answered("a patch that removes the metadata", "/remove", 422)
    yield answered("no answer", SILENT, 201)
    closed = {"clientConfig": {"url": "https://127.0.0.1:1", "caBundle": bundle}}
    yield answered("nobody there", "/allow", 201, **closed)
    yield answered("another authority", "/allow", 201, clientConfig={"url": f"{url}/allow"})
    slow = "object.data.all(x, object.data.all(y, object.data.all(z, x + y + z != 'b')))"
    conditions = [{"name": "c", "expression": slow}]
    wide = post(CONFIG_MAPS, config_map(data=texts(1_000)))
    yield answered("a slow condition", "/allow", 201, wide, matchConditions=conditions)
    rules = hook(url, bundle, "/allow")["rules"]
    elsewhere = [{**rules[0], "resources": ["secrets"]}] * 1_000
    yield answered("a thousand rules", "/allow", 201, rules=elsewhere + rules)
    many = [
        hook(url, bundle, "/allow") | {"name": f"w{number}.hostile.example"} for number in range(32)
    ]
    setup = post(VALIDATING, configuration(*many))
    yield Shape("webhook: as many as allowed", create, 201, (setup,))
    conditional = [one | {"matchConditions": conditions} for one in many]
    setup = post(VALIDATING, configuration(*conditional))
    yield Shape("webhook: as many as allowed with slow conditions", wide, 201, (setup,))
    before = (create, post(VALIDATING, configuration(hook(url, bundle, "/allow"))))
    sent = patch(f"{CONFIG_MAPS}/one", {"data": texts(60_000)}, MERGE_PATCH)
    yield Shape("webhook: of a large patch", sent, 413, before)


def shapes(share: int, url: str, bundle: str) -> Iterator[Shape]:
    yield from configurations(share, url, bundle)
    yield from reviews(share, url, bundle)


@contextlib.contextmanager
def webhook_process(directory: Path) -> Iterator[tuple[str, str]]:
    """The URL of the webhooks, in a process of their own, and the bundle that trusts it."""
    command = [sys.executable, "-m", "tests.support.apiserver.gallery.webhooks", str(directory)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = json.loads(process.stdout.readline())
            yield address["url"], address["bundle"]
        finally:
            process.stdin.close()


async def _serve(directory: Path) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)

    async def answer(path: str) -> dict[str, Any] | None:
        if path == SILENT:
            await ended.wait()
        return ANSWERS.get(path)

    async with webhook_server(directory) as server:
        for path in (*ANSWERS, SILENT):
            server.answers[path] = partial(lambda path, _: answer(path), path)
        print(json.dumps({"url": server.url, "bundle": server.bundle}), flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
