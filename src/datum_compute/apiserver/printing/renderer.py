"""Stored objects in the form the client accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import (
    YAML_TYPE,
    decode_json,
    encode_json,
    to_yaml,
)
from datum_compute.apiserver.managed_fields.entries import with_entries
from datum_compute.apiserver.objects.lifecycle import WriteResult
from datum_compute.apiserver.printing import tables
from datum_compute.apiserver.printing.list_stream import ListStream
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.request.flow_control import SLICE_BYTES
from datum_compute.apiserver.storage.protocol import Managed, StoredObject
from datum_compute.client.transport import HttpResponse


@dataclass(frozen=True, slots=True)
class Page:
    """The metadata of a list: its revision, and how to continue."""

    resource_version: str
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": self.resource_version}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class Renderer:
    """Builds the bodies for one request."""

    def __init__(self, call: RequestContext, now: Callable[[], datetime]) -> None:
        self._call = call
        self._now = now
        self._with_managed = call.request.with_managed_fields

    def stored(self, stored: StoredObject, content: tuple[bytes, Managed]) -> bytes:
        """A version as plain JSON, in the version of the API that is asked for and with its
        managed fields, unless the client wants none."""
        raw = self._call.plane.writer.shown(self._call.kind, stored, content[0])
        return self.with_managed(raw, content[1])

    def with_managed(self, raw: bytes, managed: Managed) -> bytes:
        return with_entries(raw, managed) if self._with_managed else raw

    def written(self, written: WriteResult, code: int = 200) -> HttpResponse:
        """A response of what was written."""
        return self.body(self.with_managed(written.raw, written.managed), code)

    def body(self, raw: bytes, code: int = 200) -> HttpResponse:
        """A response of one object, given as plain JSON."""
        form = self._call.form
        if self._call.kind.stored_form is not None:
            raw = encode_json(self._call.kind.to_shown(decode_json(raw)))
        if form.transform == "Table":
            obj = decode_json(raw)
            version = obj["metadata"].get("resourceVersion", "")
            raw = encode_json(self.table([obj], version))
        elif form.transform:
            raw = encode_json(tables.partial_metadata(decode_json(raw), form.version))
        elif form.yaml:
            return HttpResponse(code, {"content-type": YAML_TYPE}, _yaml(raw))
        return HttpResponse(code, errors.JSON_HEADERS, raw)

    def many(self, items: Iterable[bytes], page: Page) -> HttpResponse:
        """A list of objects, given as plain JSON. Where they are many or large, they are rendered
        while they are sent: ``items`` may read each only when it is asked for."""
        form, kind = self._call.form, self._call.kind
        document: dict[str, Any] = {
            "kind": kind.list_kind,
            "apiVersion": kind.resource.api_version,
            "metadata": page.metadata(),
        }
        if form.yaml:
            return self._stream(items, to_yaml(encode_json(document)) + b"items:\n", _yaml_item)
        field: str = "items"
        render: Callable[[bytes], bytes] | None = None
        if form.transform == "Table":
            row = tables.row_of(kind, self._now(), self._include_object(), form.version)
            document |= tables.head("Table", form.version)
            document["columnDefinitions"] = tables.definitions(kind)
            field, render = "rows", lambda raw: encode_json(row(decode_json(raw)))
        elif form.transform:
            document |= tables.head("PartialObjectMetadataList", form.version)
            render = self._partial_metadata
        head = b'%b,"%b":[' % (encode_json(document)[:-1], field.encode())
        return self._stream(items, head, render)

    def _stream(
        self, items: Iterable[bytes], head: bytes, render: Callable[[bytes], bytes] | None
    ) -> HttpResponse:
        yaml = self._call.form.yaml
        headers = {"content-type": YAML_TYPE} if yaml else errors.JSON_HEADERS
        stream = ListStream(
            head,
            items,
            b"" if yaml else b"]}",
            separator=b"" if yaml else b",",
            render=render,
            usage=self._call.usage,
            slice_bytes=MAX_YAML if yaml else SLICE_BYTES,
        )
        if not stream.is_complete:
            return HttpResponse(200, headers, stream=stream.open())
        if yaml and stream.first == head:
            return HttpResponse(200, headers, head[:-1] + b" []\n")
        return HttpResponse(200, headers, stream.first)

    def table(
        self, objects: list[dict[str, Any]], version: str, *, headed: bool = True
    ) -> dict[str, Any]:
        return tables.table(
            self._call.kind,
            objects,
            now=self._now(),
            include_object=self._include_object(),
            resource_version=version,
            with_columns=headed,
            version=self._call.form.version,
        )

    def _partial_metadata(self, raw: bytes) -> bytes:
        return encode_json(tables.partial_metadata(decode_json(raw), self._call.form.version))

    @property
    def table_key(self) -> tuple[Any, ...]:
        """Equal where the same objects give the same table."""
        call = self._call
        included = call.query.get("includeObject")
        return call.kind, included, call.form, call.request.with_managed_fields

    def _include_object(self) -> tables.IncludeObject:
        wanted = self._call.query.get("includeObject") or "Metadata"
        if wanted not in _INCLUDED:
            raise errors.bad_request(f'unrecognized includeObject value: "{wanted}"')
        return _INCLUDED[wanted]


MAX_YAML = 16 * 1024
"""Bytes of an object that is written in the block style of YAML, which takes a thousand times as
long as JSON. Larger ones are written as JSON, which is YAML too. A guess: some 30 ms."""


def _yaml(raw: bytes) -> bytes:
    return raw + b"\n" if len(raw) > MAX_YAML else to_yaml(raw)


def _yaml_item(raw: bytes) -> bytes:
    return b"- %b\n" % raw if len(raw) > MAX_YAML else to_yaml(b"[%b]" % raw)


_INCLUDED: dict[str, tables.IncludeObject] = {
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
}
