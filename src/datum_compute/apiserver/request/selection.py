"""Which objects a list or a watch is about: namespace, labels, fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from datum_compute.api.selectors import FieldSelector, LabelSelector, SelectorError
from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import decode_json
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import StoredObject, StoreEvent

_METADATA = ("metadata.name", "metadata.namespace")


MAX_SELECTOR = 8192
"""Characters of a selector: what proxies take of a URL."""
MAX_REQUIREMENTS = 100
"""Of a selector. A guess: each is compared with every object and every change."""


class Selection:
    """The selectors of one request. ``value`` gives an object's bytes where they are needed."""

    def __init__(self, call: RequestContext, value: Callable[[StoredObject], bytes]) -> None:
        self._namespace = call.namespace
        form = call.kind.stored_form
        self._names = form.names if form is not None else {}
        self._value = value
        self._labels = _labels(call.query.get("labelSelector", ""))
        self._fields = _fields(call)
        self._key, self._label = _one_label(self._labels)

    @property
    def selects_all(self) -> bool:
        """Whether there is no selector; the namespace may still narrow it."""
        return self._labels is None and self._fields is None

    def cost(self, stored: StoredObject) -> int:
        """What it takes to match a version, as bytes that are rendered."""
        labels = self._labels.requirements if self._labels is not None else ()
        compared = sum(2 + len(each.values) // 8 for each in labels)
        decoded = self._fields is not None and any(
            path not in _METADATA for path, _, _ in self._fields.requirements
        )
        return _MATCH_COST * (1 + compared) + (stored.size if decoded else 0)

    def excludes_event(self, event: StoreEvent) -> bool:
        """Whether a change cannot match, neither before nor after. A cheap test by one label
        that the selection requires, if any: of fifty cells that watch for their own objects, a
        change matches one."""
        if not self._label:
            return False
        before = event.before
        return event.after.labels.get(self._key) != self._label and (
            before is None or before.labels.get(self._key) != self._label
        )

    def matches(self, stored: StoredObject) -> bool:
        if self._namespace is not None and stored.namespace != self._namespace:
            return False
        if self._labels is not None and not self._labels.matches(stored.labels):
            return False
        return self._fields is None or self._fields.matches(
            _Fields(stored, self._value, self._names)
        )


class _Fields:
    """Reads fields of an object, decoding it only for those beyond name and namespace."""

    def __init__(
        self,
        stored: StoredObject,
        value: Callable[[StoredObject], bytes],
        names: Mapping[str, str],
    ) -> None:
        self._stored = stored
        self._names = names
        self._value = value
        self._decoded: Any = None

    def __call__(self, path: str) -> str:
        if path == "metadata.name":
            return self._stored.name
        if path == "metadata.namespace":
            return self._stored.namespace
        if self._decoded is None:
            self._decoded = decode_json(self._value(self._stored))
        value = self._decoded
        first, *rest = path.split(".")
        for part in (self._names.get(first, first), *rest):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value)


def _one_label(selector: LabelSelector | None) -> tuple[str, str]:
    """A label that every selected object has, and its value; empty when there is none."""
    for each in selector.requirements if selector is not None else ():
        if each.operator == "in" and len(each.values) == 1:
            return each.key, each.values[0]
    return "", ""


_MATCH_COST = 128


def _labels(text: str) -> LabelSelector | None:
    if not text.strip():
        return None
    return _parsed(LabelSelector.parse, text)


Parsed = TypeVar("Parsed", LabelSelector, FieldSelector)


def _parsed(parse: Callable[[str], Parsed], text: str) -> Parsed:
    if len(text) > MAX_SELECTOR:
        found = f"{len(text)} characters; at most {MAX_SELECTOR} are served"
        raise errors.bad_request(f"the selector has {found}")
    try:
        selector = parse(text)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error
    if len(selector.requirements) > MAX_REQUIREMENTS:
        found = f"{len(selector.requirements)} requirements; at most {MAX_REQUIREMENTS} are served"
        raise errors.bad_request(f"the selector has {found}")
    return selector


def _unknown_field(call: RequestContext, path: str) -> str:
    if call.kind.builtin and not call.kind.selectable_fields:
        known = ", ".join(f'"{each}"' for each in _METADATA)
        return f'"{path}" is not a known field selector: only {known}'
    return f"field label not supported: {path}"


def _fields(call: RequestContext) -> FieldSelector | None:
    text = call.query.get("fieldSelector", "")
    if not text.strip():
        return None
    selector = _parsed(FieldSelector.parse, text)
    for path, _, _ in selector.requirements:
        if path not in _METADATA and path not in call.kind.selectable_fields:
            raise errors.bad_request(_unknown_field(call, path))
    return selector
