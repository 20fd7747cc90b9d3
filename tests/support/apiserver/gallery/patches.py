"""Patches and applies of a bad shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.apiserver.gallery.shapes import (
    APPLY_PATCH,
    BOX,
    CONFIG_MAPS,
    JSON_PATCH,
    SHELF,
    STRATEGIC_PATCH,
    Shape,
    apply,
    config_map,
    custom,
    entries,
    nested,
    patch,
    path_of,
    post,
    texts,
)

ONE = f"{CONFIG_MAPS}/one"
BOXED = path_of("boxes", "one")
SHELVED = path_of("shelves", "one")


def json_patches(share: int) -> Iterator[Shape]:
    many = 10_000 // share
    small = post(CONFIG_MAPS, config_map(data={"a": "b"}))
    items = (BOX, post(path_of("boxes"), custom("boxes", list=list(range(50_000)))))

    def made(name: str, operations: Any, status: int = 200) -> Shape:
        return Shape(f"JSON patch: {name}", patch(ONE, operations, JSON_PATCH), status, (small,))

    def boxed(name: str, operations: Any, status: int = 200) -> Shape:
        return Shape(f"JSON patch: {name}", patch(BOXED, operations, JSON_PATCH), status, items)

    adds = [{"op": "add", "path": f"/data/n{number}", "value": ""} for number in range(many)]
    yield made("adds", adds)
    yield made("tests", [{"op": "test", "path": "/data/a", "value": "b"}] * many)
    yield made("a test that fails", [{"op": "test", "path": "/data/a", "value": "c"}] * many, 422)
    copies = [{"op": "copy", "from": "/data", "path": f"/x{number}"} for number in range(many)]
    yield made("copies", copies)
    move = [{"op": "move", "from": "/data/a", "path": "/data/b"}]
    back = [{"op": "move", "from": "/data/b", "path": "/data/a"}]
    yield made("moves", (move + back) * (many // 2))
    yield made("a deep path", [{"op": "add", "path": "/a" * 100_000, "value": 1}], 422)
    yield made("the whole object", [{"op": "replace", "path": "", "value": {}}], 400)
    yield made("unknown operations", [{"op": "burn", "path": "/data"}] * many, 422)
    yield made("more operations than allowed", adds + [adds[0]] * 10_001, 413)
    yield boxed(
        "insertions at the front", [{"op": "add", "path": "/spec/list/0", "value": 1}] * 100
    )
    removals = [{"op": "remove", "path": "/spec/list/0"}] * 10_000
    yield boxed("removals at the front", removals[:100])
    yield boxed("more removals than allowed", removals, 413)
    double = {"op": "copy", "from": "/spec/list", "path": "/spec/list/-"}
    yield boxed("copies that double", [double] * 60, 422)
    far = [{"op": "add", "path": f"/spec/list/{10**9}", "value": 1}]
    yield boxed("an index beyond the end", far, 422)
    deeper = {"op": "add", "path": "/spec/a", "value": nested(200)}
    yield boxed("a value that is too deep in its place", [deeper], 400)


def merge_patches(share: int) -> Iterator[Shape]:
    many = 1_000
    owners = [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": str(n)} for n in range(many)]
    metadata = {"ownerReferences": owners, "finalizers": ["a/b"]}
    owned = post(CONFIG_MAPS, config_map(metadata=metadata))
    held = post(CONFIG_MAPS, config_map(metadata={"finalizers": [f"a/{n}" for n in range(many)]}))

    def made(name: str, metadata: dict[str, Any], status: int, before: Any) -> Shape:
        sent = patch(ONE, {"metadata": metadata}, STRATEGIC_PATCH)
        return Shape(f"strategic patch: {name}", sent, status, (before,))

    changed = [owner | {"controller": False} for owner in reversed(owners)]
    yield made("owners merged by uid", {"ownerReferences": changed}, 200, owned)
    removed = [{"$patch": "delete", "uid": owner["uid"]} for owner in owners]
    yield made("owners deleted by uid", {"ownerReferences": removed}, 200, owned)
    order = [{"uid": owner["uid"]} for owner in reversed(owners)]
    yield made("an order of owners", {"$setElementOrder/ownerReferences": order}, 200, owned)
    yield made("a directive that is none", {"$patch": "burn"}, 400, owned)
    gone = [f"a/{number}" for number in range(many)]
    yield made("finalizers deleted", {"$deleteFromPrimitiveList/finalizers": gone}, 200, held)
    yield made("finalizers merged", {"finalizers": gone}, 200, held)
    sent = patch(SHELVED, {"spec": {}}, STRATEGIC_PATCH)
    shelf = (SHELF, post(path_of("shelves"), custom("shelves")))
    yield Shape("strategic patch: of a custom object", sent, 415, shelf)
    small = post(CONFIG_MAPS, config_map())
    yield Shape("merge patch: keys", patch(ONE, {"data": texts(60_000 // share)}), 200, (small,))
    yield Shape("merge patch: a list", patch(ONE, []), 400, (small,))
    yield Shape("merge patch: no metadata", patch(ONE, {"metadata": None}), 400, (small,))
    yield Shape("patch: of a type that is none", patch(ONE, {}, "text/plain"), 415, (small,))
    deep = (BOX, post(path_of("boxes"), custom("boxes", a={})))
    wide = {"spec": {f"k{number}": nested(150) for number in range(8_000 // share)}}
    yield Shape("merge patch: deep lists", patch(BOXED, wide), 200, deep)


def applies(share: int) -> Iterator[Shape]:
    many = 5_000 // share
    shelves = path_of("shelves")
    full = custom("shelves", entries=entries(many), tags=[f"t{n}" for n in range(many)])
    stored = (SHELF, apply(SHELVED, full, "ben"))

    def made(name: str, body: Any, status: int = 200, before: Any = (SHELF,), **how: Any) -> Shape:
        return Shape(f"apply: {name}", apply(SHELVED, body, **how), status, before)

    yield made("a new object", full, 201)
    yield made("the same again", full, 200, stored)
    turned = custom("shelves", entries=entries(many)[::-1], tags=full["spec"]["tags"][::-1])
    yield made("lists the other way round", turned, 200, stored)
    other = custom("shelves", entries=entries(many, "x"))
    yield made("conflicts in a list", other, 409, stored)
    yield made("conflicts in a list, forced", other, 200, stored, force=True)
    yield made("nothing any more", custom("shelves"), 200, stored, manager="ben")
    twice = custom("shelves", entries=[{"name": "same"}] * (4 * many))
    yield made("repeated keys", twice, 400)
    yield made("repeated members", custom("shelves", tags=["same"] * (40 * many)), 400)
    yield made("entries without a key", custom("shelves", entries=[{}] * (20 * many)), 400)
    yield made("unknown fields", custom("shelves", **texts(100_000 // share)), 400)
    yield made("values of another type", custom("shelves", entries=[1] * (20 * many)), 400)
    yield made("managed fields", full | {"metadata": {"name": "one", "managedFields": [{}]}}, 400)
    yield made("a list", [full], 400)
    yield made("no object", b"a: [", 400)
    yield made("a name that is another's", custom("shelves", "two"), 400)
    lines = b"".join(b"  - {name: n%d, value: text}\n" % number for number in range(many))
    head = b"apiVersion: hostile.example/v1\nkind: Shelves\nmetadata: {name: one}\nspec:\n"
    yield made("YAML", head + b" entries:\n" + lines, 201)
    yield Shape("apply: no manager", patch(SHELVED, full, APPLY_PATCH), 422, (SHELF,))
    long = apply(SHELVED, full, "m" * 5_000)
    yield Shape("apply: a manager with a long name", long, 422, (SHELF,))
    keys = config_map(data=texts(60_000 // share))
    yield Shape("apply: keys", apply(ONE, keys), 201)
    keep = config_map(data={"a": "b"})
    yield Shape("apply: all keys given up", apply(ONE, keep), 200, (apply(ONE, keys),))
    managers = tuple(
        apply(ONE, config_map(data={f"m{number}": ""}), f"m{number}") for number in range(100)
    )
    yield Shape("apply: the hundred-and-first manager", apply(ONE, keep), 200, managers)
    box = custom("boxes", **{f"k{number}": nested(150) for number in range(4_000 // share)})
    yield Shape("apply: deep lists", apply(BOXED, box), 201, (BOX,))
    entry = {"manager": "a", "operation": "Apply", "apiVersion": "hostile.example/v1"}
    deep: Any = {}
    for _ in range(150):
        deep = {"f:a": deep}
    managed = [entry | {"fieldsType": "FieldsV1", "fieldsV1": deep}] * 100
    body = custom("shelves") | {"metadata": {"name": "one", "managedFields": managed}}
    yield Shape("update: deep managed fields", post(shelves, body), 201, (SHELF,))


def shapes(share: int) -> Iterator[Shape]:
    yield from json_patches(share)
    yield from merge_patches(share)
    yield from applies(share)
