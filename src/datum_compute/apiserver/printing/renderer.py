"""Stored objects in the form the client accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import YAML_TYPE, decode_json, encode_json, to_yaml
from datum_compute.apiserver.objects.lifecycle import convert_version
from datum_compute.apiserver.printing import tables
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import StoredObject
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

    def one(self, stored: StoredObject, raw: bytes, code: int = 200) -> HttpResponse:
        return self.body(convert_version(self._call.kind, stored, raw), code)

    def body(self, raw: bytes, code: int = 200) -> HttpResponse:
        """A response of one object, given as plain JSON."""
        form = self._call.form
        if form.transform == "Table":
            obj = decode_json(raw)
            version = obj["metadata"].get("resourceVersion", "")
            raw = encode_json(self.table([obj], version))
        elif form.transform:
            raw = encode_json(tables.partial_metadata(decode_json(raw)))
        elif form.yaml:
            return HttpResponse(code, {"content-type": YAML_TYPE}, to_yaml(raw))
        return HttpResponse(code, errors.JSON_HEADERS, raw)

    def many(self, items: Sequence[bytes], page: Page) -> HttpResponse:
        form, kind = self._call.form, self._call.kind
        if form.transform:
            make: Any = tables.partial_metadata_list
            if form.transform == "Table":
                make = partial(
                    tables.table, kind, now=self._now(), include_object=self._include_object()
                )
            document = make(
                [decode_json(item) for item in items],
                resource_version=page.resource_version,
                continue_token=page.continue_token,
                remaining=page.remaining,
            )
            return HttpResponse(200, errors.JSON_HEADERS, encode_json(document))
        body = b"".join(
            (
                b'{"kind":"',
                kind.list_kind.encode(),
                b'","apiVersion":"',
                kind.resource.api_version.encode(),
                b'","metadata":',
                encode_json(page.metadata()),
                b',"items":[',
                b",".join(items),
                b"]}",
            )
        )
        if form.yaml:
            return HttpResponse(200, {"content-type": YAML_TYPE}, to_yaml(body))
        return HttpResponse(200, errors.JSON_HEADERS, body)

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
        )

    def _include_object(self) -> tables.IncludeObject:
        wanted = self._call.query.get("includeObject") or "Metadata"
        if wanted not in _INCLUDED:
            raise errors.bad_request(f'unrecognized includeObject value: "{wanted}"')
        return _INCLUDED[wanted]


_INCLUDED: dict[str, tables.IncludeObject] = {
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
}
