"""Paths, queries, headers and reviews of a bad shape."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from tests.support.apiserver.gallery.shapes import (
    CONFIG_MAPS,
    TABLE,
    YAML,
    Sent,
    Shape,
    config_map,
    post,
    texts,
)

AUTHORIZATION = "/apis/authorization.k8s.io/v1"


def lists(share: int) -> Iterator[Shape]:
    some = tuple(post(CONFIG_MAPS, config_map(f"n{number}")) for number in range(200 // share))

    def made(name: str, query: str, status: int, accept: str = "application/json") -> Shape:
        return Shape(
            f"list: {name}", Sent("GET", f"{CONFIG_MAPS}?{query}", accept=accept), status, some
        )

    def selected(name: str, selector: str, status: int) -> Shape:
        return made(name, f"labelSelector={quote(selector)}", status)

    yield selected("100 requirements", ",".join(f"!k{number}" for number in range(100)), 200)
    yield selected("101 requirements", ",".join(f"k{number}" for number in range(101)), 400)
    yield selected("a long set", "a in (" + ",".join(["x"] * 3_900) + ")", 200)
    yield selected("a longer set", "a in (" + "x" * 9_000 + ")", 400)
    yield selected("brackets", "(" * 5_000, 400)
    yield made("fields", "fieldSelector=" + quote(",".join(["metadata.name=a"] * 100)), 200)
    yield made("an unknown field", "fieldSelector=spec.a%3D1", 400)
    yield made("a limit without an end", "limit=" + "9" * 5_000, 400)
    yield made("a token that is none", "continue=" + "A" * 5_000, 400)
    yield made("a revision that is none", "resourceVersion=" + "9" * 5_000, 400)
    yield made("a watch from nowhere", "watch=1&resourceVersion=x", 400)
    yield made("a watch in another form", "watch=1&timeoutSeconds=" + "9" * 400, 400)
    yield made("initial events without a watch", "sendInitialEvents=true", 422)
    yield made("parameters", "&".join(f"a{number}=b" for number in range(900)), 200)
    yield made("a table", "limit=100", 200, TABLE)
    yield made("YAML", "limit=100", 200, YAML)
    yield made("ranges", "limit=1", 406, ",".join(["text/x"] * 700))


def paths() -> Iterator[Shape]:
    yield Shape("path: segments", Sent("GET", "/x" * 4_000), 404)
    yield Shape("path: escapes", Sent("GET", "/%2e%2e" * 1_000), 404)
    yield Shape("path: a name that is none", Sent("GET", f"{CONFIG_MAPS}/" + "%00" * 1_000), 404)
    yield Shape(
        "path: a namespace that is none",
        Sent("POST", "/api/v1/namespaces/-/configmaps", config_map()),
        404,
    )
    yield Shape("path: an unknown plane", Sent("GET", "/clusters/" + "x" * 4_000 + "/api"), 404)
    yield Shape("path: an unknown version", Sent("GET", "/openapi/v3/apis/" + "x" * 4_000), 404)


def writes(share: int) -> Iterator[Shape]:
    def made(name: str, query: str, status: int) -> Shape:
        return Shape(f"write: {name}", post(f"{CONFIG_MAPS}?{query}", config_map()), status)

    yield made("a trial of nothing", "dryRun=Some", 422)
    yield made("a manager with a long name", "fieldManager=" + "m" * 5_000, 422)
    yield made("a validation of nothing", "fieldValidation=Burn", 422)
    sent = post(CONFIG_MAPS, config_map(), "application/json;" + ";".join(["a=b"] * 1_000))
    yield Shape("write: parameters of a type", sent, 201)
    sent = post(CONFIG_MAPS, config_map(), "application/x-www-form-urlencoded")
    yield Shape("write: a form", sent, 415)
    small = (post(CONFIG_MAPS, config_map()),)
    one = f"{CONFIG_MAPS}/one"
    yield Shape(
        "delete: a policy that is none", Sent("DELETE", f"{one}?propagationPolicy=Burn"), 422, small
    )
    wrong = {"preconditions": {"uid": "x" * 1_000}}
    yield Shape("delete: another uid", Sent("DELETE", one, wrong), 409, small)
    yield Shape("delete: long options", Sent("DELETE", one, texts(50_000 // share)), 413, small)


def reviews() -> Iterator[Shape]:
    def made(name: str, kind: str, spec: object, status: int, group: str = AUTHORIZATION) -> Shape:
        return Shape(f"review: {name}", post(f"{group}/{kind}", {"spec": spec}), status)

    groups = [f"g{number}" for number in range(50_000)]
    asked = {"user": "a", "groups": groups, "resourceAttributes": {"verb": "get"}}
    yield made("groups", "subjectaccessreviews", asked, 413)
    yield made("nothing", "selfsubjectaccessreviews", {}, 422)
    token = {"token": "x" * 1_000}
    yield made("a token that is none", "tokenreviews", token, 201, "/apis/authentication.k8s.io/v1")
    sent = post(
        "/api/v1/namespaces/default/serviceaccounts/none/token",
        {"spec": {"expirationSeconds": 2**62}},
    )
    yield Shape("review: a token for nobody", sent, 404)


def shapes(share: int) -> Iterator[Shape]:
    yield from lists(share)
    yield from paths()
    yield from writes(share)
    yield from reviews()
