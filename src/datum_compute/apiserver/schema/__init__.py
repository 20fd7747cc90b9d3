"""Structural schemas, compiled: prune, default and validate an object in one walk.

An ``openAPIV3Schema`` enters through :func:`compiled`. It is turned once into a tree of
closures (``walk``), built from single checks (``checks``, ``formats``, ``patterns``), and
cached by its content: planes that serve the same definition share one tree. ``structural``
decides before that whether a schema can be served at all.

Per write, :meth:`Schema.process` walks the decoded object: nulls that mean "not set" and
unknown fields are dropped, defaults are set, and the rest is validated, children before their
parents. Rules in CEL (``x-kubernetes-validations``) are run after this walk, by ``cel.rules``,
since they need the previous object too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from datum_compute.apiserver.schema.cost import is_costly
from datum_compute.apiserver.schema.outcome import (
    SchemaOutcome,
    TooManyErrors,
    Walk,
)
from datum_compute.apiserver.schema.walk import compile_root


class Schema:
    """A compiled schema. Immutable; obtain it from :func:`compiled`."""

    __slots__ = ("__weakref__", "_compiled", "digest", "has_defaults", "is_costly", "source")

    def __init__(
        self,
        source: Mapping[str, Any],
        digest: str,
        *,
        is_costly: bool = False,
        has_defaults: bool = True,
    ) -> None:
        self.source = source
        self.digest = digest
        """Names the content: equal for equal schemas, in every process."""
        self.is_costly = is_costly
        """Whether compiling it, or a walk over a small object, may take long."""
        self.has_defaults = has_defaults
        """Whether a walk may set defaults."""
        self._compiled: Walk | None = None

    def _compile(self) -> Walk:
        """On the first use: a costly one may have none in this process."""
        if self._compiled is None:
            self._compiled = compile_root(self.source)
        return self._compiled

    def process(self, obj: dict[str, Any], known: Mapping[str, Any] | None = None) -> SchemaOutcome:
        """Prune, default and validate ``obj`` in place.

        ``apiVersion``, ``kind`` and ``metadata`` at the root are never pruned or defaulted.
        The object must be the caller's own: what the walk changes is not undone on errors.

        ``known`` has values at the root that are not judged: one that is the same object in both
        is not walked, nor is one in an object at the root.
        """
        outcome = SchemaOutcome(known)
        with suppress(TooManyErrors):
            self._compile()(obj, (), outcome)
        if len(outcome.unknown) > 1:
            outcome.unknown.sort()
        return outcome


_schemas: WeakValueDictionary[str, Schema] = WeakValueDictionary()


def compiled(source: Mapping[str, Any]) -> Schema:
    """The schema of this ``openAPIV3Schema``; equal content gives the very same object.

    Its first use raises ValueError on a pattern that is no regular expression; ``structural``
    reports that, and everything else that cannot be served, with its place.
    """
    text = msgspec.json.encode(source, order="deterministic")
    digest = hashlib.sha256(text).hexdigest()[:32]
    schema = _schemas.get(digest)
    if schema is None:
        # From a copy: the caller's dict may change, the shared schema may not.
        source = msgspec.json.decode(text)
        schema = _schemas[digest] = Schema(
            source,
            digest,
            is_costly=is_costly(source, text),
            has_defaults=b'"default":' in text,
        )
    return schema
