"""The plain reader in the place of the client: reads go through it, everything else does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from datum_compute.api.meta import Object, ObjectList
from datum_compute.api.scheme import Resource
from datum_compute.cli.quick.reader import Reader
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import Client
from tests.support.client_conformance import case_caller, case_create, case_list, case_status
from tests.support.client_conformance.cases import Case
from tests.support.client_conformance.fixture import ConformanceTarget

READ_CASES: list[Case] = [
    case_create.what_was_created_is_what_is_read,
    case_create.text_survives_unchanged,
    case_create.an_absent_object_is_not_found,
    case_create.an_absent_object_in_an_absent_namespace_is_not_found,
    case_create.an_unknown_kind_is_not_served,
    case_create.unknown_fields_are_pruned_where_the_schema_is_closed,
    case_create.built_in_kinds_work_alike,
    case_create.a_namespace_is_active,
    case_create.the_server_has_version_and_health_endpoints,
    case_create.discovery_names_the_kind,
    case_list.a_list_holds_one_namespace_in_order,
    case_list.a_list_over_all_namespaces_holds_each,
    case_list.a_list_in_an_absent_namespace_is_empty,
    case_list.items_know_their_kind,
    case_list.label_selectors_choose,
    case_list.a_label_selector_has_a_form,
    case_list.field_selectors_choose,
    case_list.only_declared_fields_can_be_selected,
    case_status.a_status_can_be_read_by_itself,
    case_caller.a_wrong_credential_is_unauthorized,
    case_caller.a_caller_without_a_name_is_refused,
    case_caller.messages_name_the_call_and_the_cluster,
    case_caller.a_message_never_holds_the_credential,
]


def reader_target(
    target: ConformanceTarget, make_reader: Callable[..., Reader]
) -> ConformanceTarget:
    """The same target, read through readers, two objects a page."""

    def client_with(**options: Any) -> ApiClient:
        reader = make_reader(**{"cluster": target.client.cluster, "page_size": 2, **options})
        client: Any = _ReaderClient(reader, target.client_with(**options))
        return client  # type: ignore[no-any-return]  # the read cases use only what it has

    return replace(target, client=client_with(), client_with=client_with)


class _ReaderClient:
    """A reader blocks, so each call runs in another thread."""

    def __init__(self, reader: Reader, client: Client) -> None:
        self._reader = reader
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        found = await self._blocking(lambda: self._reader.get(resource, name, namespace))
        return _object(found)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        found = await self._blocking(
            lambda: self._reader.list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            )
        )
        return ObjectList([_object(item) for item in found], "", "", None)

    async def raw(self, path: str) -> bytes:
        body: bytes = await self._blocking(lambda: self._reader.raw(path))
        return body

    async def _blocking(self, call: Callable[[], Any]) -> Any:
        try:
            return await asyncio.to_thread(call)
        finally:
            self._reader.close()


def _object(values: dict[str, Any]) -> Object:
    return Object.from_wire(json.dumps(values).encode())
