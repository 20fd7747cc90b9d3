"""Which objects a list or a watch is about: namespace, labels, fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datum_compute.api.selectors import FieldSelector, LabelSelector, SelectorError
from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import decode_json
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import StoredObject, StoreEvent

_METADATA = ("metadata.name", "metadata.namespace")


class Selection:
    """The selectors of one request. ``value`` gives an object's bytes where they are needed."""

    def __init__(self, call: RequestContext, value: Callable[[StoredObject], bytes]) -> None:
        self._namespace = call.namespace
        self._value = value
        self._labels = _labels(call.query.get("labelSelector", ""))
        self._fields = _fields(call)
        self._key, self._label = _one_label(self._labels)

    @property
    def selects_all(self) -> bool:
        """Whether there is no selector; the namespace may still narrow it."""
        return self._labels is None and self._fields is None

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
        return self._fields is None or self._fields.matches(_Fields(stored, self._value))


class _Fields:
    """Reads fields of an object, decoding it only for those beyond name and namespace."""

    def __init__(self, stored: StoredObject, value: Callable[[StoredObject], bytes]) -> None:
        self._stored = stored
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
        for part in path.split("."):
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


def _labels(text: str) -> LabelSelector | None:
    if not text.strip():
        return None
    try:
        return LabelSelector.parse(text)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error


def _fields(call: RequestContext) -> FieldSelector | None:
    text = call.query.get("fieldSelector", "")
    if not text.strip():
        return None
    try:
        selector = FieldSelector.parse(text)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error
    for path, _, _ in selector.requirements:
        if path not in _METADATA and path not in call.kind.selectable_fields:
            raise errors.bad_request(f"field label not supported: {path}")
    return selector
