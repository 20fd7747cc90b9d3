"""Definitions of a bad shape, and objects that make their schemas and rules expensive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.apiserver.gallery.shapes import (
    BOX,
    DEFINITIONS,
    Sent,
    Shape,
    custom,
    define,
    definition,
    patch,
    path_of,
    post,
    texts,
)

ONE = path_of("things", "one")
TEXT = {"type": "string"}


def a_list(items: Any, limit: int, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": limit} | more


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def schemas(share: int) -> Iterator[Shape]:
    def made(name: str, spec: Any, status: int = 201, **version: Any) -> Shape:
        return Shape(f"definition: {name}", define("things", spec, **version), status)

    yield made("fields", of(**dict.fromkeys(texts(20_000 // share), TEXT)))
    bounded = {"type": "string", "pattern": "a{900}"}
    yield made("patterns", of(**dict.fromkeys(texts(1_000 // share), bounded)))
    yield made("a pattern too large", of(a={"type": "string", "pattern": "(a{900}){900}"}), 422)
    yield made("a pattern that is none", of(a={"type": "string", "pattern": "(" * 10_000}), 422)
    yield made(
        "values", of(a={"type": "string", "enum": [f"v{n}" for n in range(100_000 // share)]})
    )
    deep: Any = TEXT
    for _ in range(60):
        deep = of(a=deep)
    yield made("levels", deep)
    for _ in range(60):
        deep = of(a=deep)
    yield made("too many levels", deep, 400)
    yield made("a reference", of(a={"$ref": "#/definitions/a"}), 422)
    unknown = {"type": "burn"}
    yield made("faults", of(**dict.fromkeys(texts(20_000 // share), unknown)), 422)
    wrong = {"type": "integer", "default": "x"}
    yield made("faults of defaults", of(**dict.fromkeys(texts(5_000 // share), wrong)), 422)
    column = {"name": "a", "type": "string", "jsonPath": ".spec.a"}
    columns = [column | {"name": f"c{number}"} for number in range(10_000 // share)]
    yield made("columns", of(a=TEXT), 201, additionalPrinterColumns=columns)
    bad = [column | {"jsonPath": "{[" * 5_000}]
    yield made("a column without a path", of(a=TEXT), 422, additionalPrinterColumns=bad)
    body = definition("things", of(a=TEXT))
    (version,) = body["spec"]["versions"]
    more = [version | {"name": f"v{n}", "storage": False} for n in range(2, 1_000 // share + 3)]
    body["spec"]["versions"] += more
    yield Shape("definition: versions", post(DEFINITIONS, body), 201)
    named = definition("things", of(a=TEXT))
    named["spec"]["names"]["shortNames"] = [f"s{number}" for number in range(10_000 // share)]
    yield Shape("definition: short names", post(DEFINITIONS, named), 201)
    other = definition("things", of(a=TEXT)) | {"metadata": {"name": "other.hostile.example"}}
    yield Shape("definition: of another name", post(DEFINITIONS, other), 422)
    protected = definition("things", of(a=TEXT))
    protected["metadata"]["name"] = "things.hostile.k8s.io"
    protected["spec"]["group"] = "hostile.k8s.io"
    yield Shape("definition: of a protected group", post(DEFINITIONS, protected), 422)


def objects(share: int) -> Iterator[Shape]:
    things = path_of("things")
    parts = {"type": "array", "items": TEXT | {"allOf": [{"minLength": 1}] * 2_000}}

    def made(name: str, spec: Any, body: Any, status: int = 201) -> Shape:
        return Shape(f"object: {name}", post(things, body), status, (define("things", spec),))

    yield made("items of 2,000 parts", of(a=parts), custom("things", a=["x"] * (1_000 // share)))
    faulty = custom("things", a=[{}] * (300_000 // share))
    yield made("faults of items", of(a={"type": "array", "items": TEXT}), faulty, 422)
    backtracking = of(a={"type": "string", "pattern": "^(a+)+$"})
    yield made("a text for a pattern", backtracking, custom("things", a="a" * 1_000_000 + "b"), 422)
    default = {"type": "object", "default": texts(1_000, "x" * 50)}
    default["additionalProperties"] = TEXT
    growing = of(a={"type": "array", "items": of(a=default)})
    yield made("defaults that fill the memory", growing, custom("things", a=[{}] * 100_000), 413)
    unique = of(a={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"})
    same = custom("things", a=["same"] * (200_000 // share))
    yield made("repeated members", unique, same, 422)
    dated = of(a={"type": "array", "items": TEXT | {"format": "date-time"}})
    yield made("dates that are none", dated, custom("things", a=["x"] * (200_000 // share)), 422)


def rules(share: int) -> Iterator[Shape]:
    numbers = a_list({"type": "integer"}, 1_000)

    def rule(text: str, **more: Any) -> dict[str, Any]:
        return {"x-kubernetes-validations": [{"rule": text} | more]}

    def made(name: str, spec: Any, status: int) -> Shape:
        return Shape(f"CEL: {name}", define("things", spec), status)

    def run(name: str, spec: Any, body: Any, status: int) -> Shape:
        sent = post(path_of("things"), body)
        return Shape(f"CEL: {name}", sent, status, (define("things", spec),))

    short = of(a=TEXT | {"maxLength": 10})
    yield made("a long rule", short | rule("||".join(["self.a == 'b'"] * 500)), 201)
    yield made("a longer rule", short | rule("||".join(["self.a == 'b'"] * 100_000)), 422)
    yield made("deep parentheses", of(a=TEXT) | rule("(" * 5_000 + "true" + ")" * 5_000), 422)
    yield made("deep negations", of(a=TEXT) | rule("!" * 20_000 + "true"), 422)
    yield made(
        "deep choices", of(a=TEXT) | rule("true ? " * 3_000 + "true" + " : true" * 3_000), 422
    )
    yield made("an open text", of(a=TEXT) | rule("self.a == '" + "x" * 1_000_000), 422)
    yield made("a rule that is no rule", of(a=TEXT) | rule("self.a."), 422)
    yield made("an unknown function", of(a=TEXT) | rule("burn(self.a)"), 422)
    yield made("another type", of(a=TEXT) | rule("self.a"), 422)
    unbounded = of(a={"type": "array", "items": TEXT})
    nestedly = "self.a.all(x, self.a.all(y, self.a.all(z, x == y || y == z)))"
    yield made("loops over a list without an end", unbounded | rule(nestedly), 422)
    many = [{"rule": f"self.a != 'v{number}'"} for number in range(1_000 // share)]
    yield made("rules", of(a=TEXT) | {"x-kubernetes-validations": many}, 201)
    faults = [{"rule": f"self.b{number}"} for number in range(2_000 // share)]
    yield made("faults of rules", of(a=TEXT) | {"x-kubernetes-validations": faults}, 422)
    yield made("a list of many lists", of(a=TEXT) | rule("[" * 300 + "]" * 300 + " == []"), 422)

    pairs = of(a=numbers) | rule("self.a.all(x, self.a.exists_one(y, x == y))")
    yield run("every pair of 1,000", pairs, custom("things", a=list(range(1_000))), 201)
    sorting = of(a=numbers) | rule("self.a.filter(x, x > 0).map(x, x * 2).all(x, x > 1)")
    yield run("lists made of lists", sorting, custom("things", a=list(range(1, 1_001))), 201)
    text = TEXT | {"maxLength": 100_000}
    growing = of(a=text) | rule("self.a.replace('a', 'bbbbbbbbbb').size() < 5")
    yield run("a text that grows", growing, custom("things", a="a" * 100_000), 422)
    matching = of(a=text) | rule("self.a.matches('^(a+)+$')")
    yield run("a text for a pattern", matching, custom("things", a="a" * 99_999 + "b"), 422)
    splitting = "self.a.split('').join(',').split(',').size() == 0"
    yield made("a text in pieces", of(a=text) | rule(splitting), 422)
    brief = of(a=TEXT | {"maxLength": 5_000}) | rule("self.a.split('').size() == 0")
    yield run("a shorter text in pieces", brief, custom("things", a="a" * 5_000), 422)
    own = of(a=text) | rule("self.a == 'b'", messageExpression="self.a + self.a + self.a")
    yield run("a message of its own", own, custom("things", a="x" * 100_000), 422)
    each = a_list(TEXT | rule("self != 'x'") | {"maxLength": 10}, 10_000)
    yield run("a rule for each of 10,000", of(a=each), custom("things", a=["x"] * 10_000), 422)
    before = (
        define("things", of(a=numbers) | rule("self.a.all(x, x in oldSelf.a)")),
        post(path_of("things"), custom("things", a=list(range(1_000)))),
    )
    change = {"spec": {"a": list(range(999, -1, -1))}}
    yield Shape("CEL: every pair of an update", patch(ONE, change), 200, before)
    division = of(a={"type": "integer"}) | rule("1 / self.a > 0")
    yield run("a division by zero", division, custom("things", a=0), 422)
    overflow = of(a={"type": "integer"}) | rule("self.a * self.a > 0")
    yield run("a number that overflows", overflow, custom("things", a=2**62), 422)
    parsing = of(a=text) | rule(
        "isURL(self.a) || isIP(self.a) || quantity(self.a).isLessThan(quantity('1'))"
    )
    yield run("a number of many digits", parsing, custom("things", a="9" * 100_000), 422)


def updates(share: int) -> Iterator[Shape]:
    wide = define("things", of(**dict.fromkeys(texts(5_000 // share), TEXT)))
    path = f"{DEFINITIONS}/things.hostile.example"
    body = definition("things", of(**dict.fromkeys(texts(10_000 // share), TEXT)))
    yield Shape("definition: a wider one", patch(path, {"spec": body["spec"]}), 200, (wide,))
    objects = (post(path_of("things"), custom("things", f"n{number}")) for number in range(200))
    yield Shape("definition: deleted with its objects", Sent("DELETE", path), 200, (wide, *objects))
    large = post(path_of("boxes"), custom("boxes", list=[1] * (300_000 // share)))
    path = f"{DEFINITIONS}/boxes.hostile.example"
    yield Shape("definition: deleted with a large object", Sent("DELETE", path), 200, (BOX, large))
    document = Sent("GET", "/openapi/v3/apis/hostile.example/v1")
    yield Shape("definition: its OpenAPI", document, 200, (wide,))
    yield Shape("definition: all of OpenAPI", Sent("GET", "/openapi/v2"), 200, (wide,))


def shapes(share: int) -> Iterator[Shape]:
    yield from schemas(share)
    yield from objects(share)
    yield from rules(share)
    yield from updates(share)
