"""Which ConfigMaps, Secrets and keys that a template names do not exist, and how to create them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.scheme import Resource
from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.tables import CONFIG_MAPS, NAMESPACE, SECRETS
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.decisions.references import (
    IMAGE_PULLS,
    SECRET,
    KeyReference,
    Reference,
    key_references,
    references_of,
)

Json = Mapping[str, Any]

REGISTRY_KEY = ".dockerconfigjson"
"""The one key of a Secret with the credential of a registry."""


class Missing(NamedTuple):
    """One use of an object that does not exist, or lacks a key."""

    of: KeyReference
    exists: bool
    """Whether the object exists, and the key does not."""

    def describe(self) -> str:
        reference, key, use = self.of
        if self.exists:
            return f"{reference} has no key {key} (for {use})"
        return f"{reference} does not exist ({f'key {key} ' if key else ''}for {use})"

    def view(self) -> dict[str, Any]:
        reference, key, use = self.of
        return {
            "kind": reference.kind,
            "name": reference.name,
            "key": key or None,
            "neededBy": use,
            "message": self.describe(),
        }


def parse_template(template: Json) -> compute.InstanceSpec | None:
    """The spec of a template; None for one that the server has not judged, and would refuse."""
    try:
        return msgspec.convert(template.get("spec") or {}, compute.InstanceSpec)
    except msgspec.ValidationError:
        return None


def find_missing(
    spec: compute.InstanceSpec, keys: Mapping[str, Sequence[str]]
) -> Iterator[Missing]:
    """What instances cannot start without, of the objects with these keys, by entry."""
    for each in key_references(spec):
        present = keys.get(each.reference.entry)
        if each.reference.optional or (
            present is not None and (not each.key or each.key in present)
        ):
            continue
        yield Missing(each, present is not None)


async def read_missing(client: Client, template: Json) -> list[Missing]:
    """What instances of the template wait for; nothing where an object may not be read."""
    from datum_compute.cli.session import to_dict  # plain reads do without the client

    spec = parse_template(template)
    if spec is None:
        return []
    keys: dict[str, Sequence[str]] = {}
    for each in references_of(spec):
        try:
            found = to_dict(await client.get(_resource(each), each.name, NAMESPACE))
        except errors.NotFound:
            continue
        except errors.Forbidden:
            return []
        keys[each.entry] = queries.keys_of(found)
    return list(find_missing(spec, keys))


def read_missing_plainly(context: Context, template: Json) -> list[Missing]:
    """The same with plain reads."""
    spec = parse_template(template)
    if spec is None:
        return []
    keys: dict[str, Sequence[str]] = {}
    for each in references_of(spec):
        try:
            found = context.reader.get(_resource(each), each.name, NAMESPACE)
        except errors.NotFound:
            continue
        except errors.Forbidden:
            return []
        keys[each.entry] = queries.keys_of(found)
    return list(find_missing(spec, keys))


def _resource(reference: Reference) -> Resource:
    return CONFIG_MAPS if reference.kind == CONFIG_MAPS.kind else SECRETS


def creating_commands(missing: Sequence[Missing]) -> list[Command]:
    """How to create each object with the keys that are needed."""
    keys: dict[Reference, list[str]] = {}
    for each in missing:
        needed = keys.setdefault(each.of.reference, [])
        if each.of.use == IMAGE_PULLS:
            needed += ["--from-file", f"{REGISTRY_KEY}=FILE"]
        elif each.of.key and each.of.key not in needed:
            needed.append(each.of.key)
    return [_creating(*each) for each in keys.items()]


def _creating(reference: Reference, keys: Sequence[str]) -> Command:
    if reference.kind == SECRET:
        return command("secrets", "set", reference.name, *(keys or ("KEY",)))
    values = [f"{key}=VALUE" for key in keys] or ["KEY=VALUE"]
    return command("config", "set", reference.name, *values)
