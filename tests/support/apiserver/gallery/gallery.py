"""All hostile requests, and what is left of them on a plane."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.apiserver.gallery import (
    definitions,
    objects,
    patches,
    protobuf,
    queries,
    webhooks,
)
from tests.support.apiserver.gallery.shapes import (
    CONFIG_MAPS,
    DEFINITIONS,
    JSON_PATCH,
    SECRETS,
    Sent,
    Shape,
    patch,
)


def all_shapes(url: str, bundle: str, share: int = 1) -> Iterator[Shape]:
    """``url`` and ``bundle`` are those of :func:`.webhooks.webhook_process`; of most counts a
    ``share``-th part is taken."""
    yield from objects.shapes(share)
    yield from patches.shapes(share)
    yield from definitions.shapes(share)
    yield from protobuf.shapes(share)
    yield from queries.shapes(share)
    yield from webhooks.shapes(share, url, bundle)


_RELEASE = patch(
    f"{CONFIG_MAPS}/one", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH
)
_MADE = (
    objects.LEASES,
    objects.EVENTS,
    objects.ACCOUNTS,
    f"{objects.RBAC}/roles",
    f"{objects.RBAC}/rolebindings",
    SECRETS,
)
_KINDS = ("things", "boxes", "shelves")


def removals(shape: Shape) -> Iterator[Sent]:
    """The requests that remove what a shape leaves, whatever they answer."""
    sent = [*shape.setup, shape.sent]
    paths = {one.path.partition("?")[0] for one in sent if one.method != "GET"}
    for path in (webhooks.VALIDATING, webhooks.MUTATING):
        if path in paths:
            yield Sent("DELETE", f"{path}/hostile")
    if any(path.startswith(CONFIG_MAPS) for path in paths):
        yield _RELEASE
        yield Sent("DELETE", CONFIG_MAPS)
    for path in _MADE:
        if path in paths:
            yield Sent("DELETE", path)
    if any(path.startswith(DEFINITIONS) for path in paths):
        for kind in _KINDS:
            yield Sent("DELETE", f"{DEFINITIONS}/{kind}.hostile.example")
