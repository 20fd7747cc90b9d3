"""Bodies in protobuf of a bad shape."""

from __future__ import annotations

from collections.abc import Iterator

from datum_compute.apiserver.request.protobuf import MAGIC, MEDIA_TYPE
from tests.support.apiserver.gallery.objects import LEASES
from tests.support.apiserver.gallery.shapes import BOX, CONFIG_MAPS, Sent, Shape, config_map, post
from tests.support.apiserver.protobuf import field, number


def envelope(kind: str, message: bytes, version: str = "v1") -> bytes:
    return MAGIC + field(1, field(1, version) + field(2, kind)) + field(2, message)


def named(*more: bytes) -> bytes:
    return field(1, field(1, "one") + b"".join(more))


def shapes(share: int) -> Iterator[Shape]:
    many = 60_000 // share

    def made(name: str, body: bytes, status: int = 400, path: str = CONFIG_MAPS) -> Shape:
        return Shape(f"protobuf: {name}", post(path, body, MEDIA_TYPE), status)

    def entry(at: int, key: str, value: str) -> bytes:
        return field(at, field(1, key) + field(2, value))

    keys = b"".join(entry(2, f"key{index}", "") for index in range(many))
    yield made("keys", envelope("ConfigMap", named() + keys), 201)
    yield made("a repeated key", envelope("ConfigMap", named() + entry(2, "a", "b") * many), 201)
    yield made("empty entries", envelope("ConfigMap", named() + field(2, b"") * (20 * many)), 422)
    yield made("unknown fields", envelope("ConfigMap", named() + field(99, "x") * (10 * many)), 201)
    labels = b"".join(entry(11, f"key{index}", "") for index in range(60_000))
    yield made("labels", envelope("ConfigMap", named(labels)), 422)
    yield made("finalizers", envelope("ConfigMap", named(field(14, "a/b") * 60_000)), 422)
    yield made("nothing after the magic number", MAGIC, 415)
    yield made("no magic number", envelope("ConfigMap", named())[4:])
    yield made("a length beyond the end", envelope("ConfigMap", named())[:-3])
    yield made("a length of 2^63", MAGIC + b"\x12" + b"\xff" * 8 + b"\x7f")
    yield made("a number without an end", MAGIC + b"\xff" * 1_000_000)
    yield made("a field without a number", MAGIC + b"\x02\x00", 415)
    yield made("a wire type that is none", MAGIC + b"\x0f")
    yield made("groups", envelope("ConfigMap", named() + b"\x0b" * 100_000))
    yield made("another kind", envelope("Secret", named()))
    yield made("an unknown kind", envelope("Burn", named()), 415)
    yield made(
        "invalid UTF-8",
        envelope("ConfigMap", named() + field(2, field(1, b"\xff"))),
    )
    deep = b""
    for _ in range(2_000):
        deep = field(1, deep)
    yield made("deep messages", envelope("ConfigMap", deep))
    yield made("a text where an object is", envelope("ConfigMap", field(1, b"\xff" * 1_000)))
    lease = envelope(
        "Lease", named() + field(2, field(1, "x" * 1_000_000)), "coordination.k8s.io/v1"
    )
    yield made("a Lease with a long holder", lease, 201, LEASES)
    when = number(1 << 3) + number(2**63)
    timed = envelope("Lease", named() + field(2, field(4, when)), "coordination.k8s.io/v1")
    yield made("a time beyond all times", timed, 400, LEASES)
    small = post(CONFIG_MAPS, config_map())
    options = envelope("DeleteOptions", field(5, "Burn"), "v1")
    sent = Sent("DELETE", f"{CONFIG_MAPS}/one", options, MEDIA_TYPE)
    yield Shape("protobuf: options that are none", sent, 422, (small,))
    options = envelope("DeleteOptions", field(2, field(1, "x") * many), "v1")
    sent = Sent("DELETE", f"{CONFIG_MAPS}/one", options, MEDIA_TYPE)
    yield Shape("protobuf: long options", sent, 413, (small,))
    review = envelope("SelfSubjectAccessReview", b"\xff" * 1_000, "authorization.k8s.io/v1")
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    yield made("a review that is none", review, 400, path)
    custom = post("/apis/hostile.example/v1/namespaces/default/boxes", b"k8s\x00", MEDIA_TYPE)
    yield Shape("protobuf: a custom object", custom, 415, (BOX,))
    only = Sent("GET", f"{CONFIG_MAPS}/one", accept=MEDIA_TYPE)
    yield Shape("protobuf: asked for alone", only, 406, (small,))
