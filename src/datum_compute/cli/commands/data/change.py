"""``set`` and ``unset``: prints what changes, writes it, and says which workloads use it.

The object is read and judged before a value is asked for. A write carries the version that was
read; after a conflict the change is planned again."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import ANNOTATION_ROLL_ON_CONFIG_CHANGE
from datum_compute.cli.commands.data import inputs
from datum_compute.cli.commands.data.kinds import (
    OPAQUE,
    REGISTRY_CREDENTIAL,
    DataKind,
    Json,
    require_changeable,
    require_own,
    type_of,
)
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, not_found, unknown, usage
from datum_compute.cli.explain.missing_data import REGISTRY_KEY
from datum_compute.cli.explain.suggestions import Remark, Suggestion, command
from datum_compute.cli.queries import keys_of
from datum_compute.cli.render.output import show
from datum_compute.cli.render.spec_diff import MASK, NO_VALUE, mask_variable, value_text
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.cli.workload import CONFLICT_RETRIES, conflict_error, print_fields
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.decisions.references import LARGEST_SOURCE, references_of, size_of
from datum_compute.runtime.cache.quarantine import views

Values = dict[str, bytes | None]
"""By key; None removes it."""

MOST_SUGGESTED = 3
"""Workloads that suggestions name."""


class User(NamedTuple):
    """A workload whose template names the object."""

    name: str
    rolls: bool
    """Whether its instances are replaced when the object changes."""
    runs: bool
    """Whether any of its instances is ready."""


def run_set(context: Context, kind: DataKind) -> int:
    given = inputs.parse(kind, context.args.entries, context.args.from_file)
    session = context.open_session()
    name = context.args.name

    async def judge(client: ApiClient) -> None:
        live = await _live(client, kind, name)
        if live is not None:
            require_changeable(kind, live)

    session.run(judge)
    values: Values = {**inputs.read(context, given)}
    if not values:
        raise usage("stdin has no line KEY=VALUE")

    async def work(client: ApiClient) -> int:
        for _ in range(CONFLICT_RETRIES):
            live = await _live(client, kind, name)
            try:
                return await _set(context, client, kind, live, values)
            except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
                pass  # changed concurrently: plan again
        raise conflict_error("setting", name)

    return session.run(work)


def run_unset(context: Context, kind: DataKind) -> int:
    session = context.open_session()
    name, keys = context.args.name, list(dict.fromkeys(context.args.keys))

    async def find(client: ApiClient) -> tuple[dict[str, Any], list[User]]:
        live = await _live(client, kind, name)
        if live is None:
            project, step = context.target.project, kind.list_command
            raise not_found(kind.resource.kind, name, project, step)
        (require_changeable if keys else require_own)(kind, live)
        for key in keys:
            if key not in keys_of(live):
                step = kind.list_command
                raise unknown("key", key, keys_of(live), step, f" in {kind.title(name)}")
        return live, await _users(client, kind, name)

    live, users = session.run(find)
    context.say(f"This will remove from project {context.target.project}:\n")
    what = kind.title(name)
    if keys:
        what = f"{'key' if len(keys) == 1 else 'keys'} {', '.join(keys)} of {what}"
    context.say(f"  {what}\n")
    if users:
        context.say(f"{_used_by(users)}. {_REMOVED}\n")
    if not context.args.dry_run:
        context.confirm(f"Remove {what}?")
        session.run(lambda client: _remove(client, kind, live, keys))
        context.say(f"Removed {what}.")
    _show(context, kind, live, "updated" if keys else "deleted", keys or keys_of(live), users)
    return 0


_REMOVED = (
    "Running instances keep what they have until they restart; new ones do not start without it."
)


async def _remove(client: ApiClient, kind: DataKind, live: Json, keys: Sequence[str]) -> None:
    name, uid = live["metadata"]["name"], live["metadata"]["uid"]
    if keys:
        gone = dict.fromkeys(keys)
        body = {
            "metadata": {"uid": uid},
            **{part: gone for part in ("data", "binaryData") if live.get(part)},
        }
        await client.patch(kind.resource, name, merge(body), NAMESPACE)
        return
    try:
        await client.delete(kind.resource, name, NAMESPACE, uid=uid)
    except errors.NotFound:
        pass  # deleted concurrently


async def _live(client: ApiClient, kind: DataKind, name: str) -> dict[str, Any] | None:
    try:
        return to_dict(await client.get(kind.resource, name, NAMESPACE))
    except errors.NotFound:
        return None


async def _set(
    context: Context, client: ApiClient, kind: DataKind, live: Json | None, values: Values
) -> int:
    if live is not None:
        require_changeable(kind, live)
        if type_of(live) == REGISTRY_CREDENTIAL and set(values) != {REGISTRY_KEY}:
            raise usage(
                f"{kind.title(context.args.name)} is of type {REGISTRY_CREDENTIAL}:"
                f" its one key is {REGISTRY_KEY}"
            )
    name, dry_run = context.args.name, context.args.dry_run
    before = _values(kind, live) if live is not None else {}
    changed = {key: value for key, value in values.items() if before.get(key) != value}
    users = await _users(client, kind, name)
    if live is not None and not changed:
        context.say(f"{kind.title(name)}: nothing to change.")
        _show(context, kind, live, "unchanged", [], users)
        return 0
    wanted = _fields(kind, live, changed)
    _check_size(kind, name, {**before, **values})
    if live is None:
        body = {"metadata": {"name": name}, **wanted}
        write = client.create(kind.resource, body, NAMESPACE, dry_run=dry_run)
    else:
        version = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
        body = {"metadata": version, **wanted}
        write = client.patch(kind.resource, name, merge(body), NAMESPACE, dry_run=dry_run)
    written = to_dict(await write)
    action = "updated" if live is not None else "created"
    _print_change(context, kind, live, before, changed)
    if not dry_run:
        context.say(f"{kind.title(name)} {action}.")
    _print_secret_hint(context, kind, changed)
    _print_use(context, kind, action, users)
    _show(context, kind, written, action, sorted(changed), users)
    return 0


def _values(kind: DataKind, obj: Json) -> dict[str, bytes]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    if kind.hidden:
        data, binary = {}, data
    decoded = {key: base64.b64decode(str(value)) for key, value in binary.items()}
    return {**{key: str(value).encode() for key, value in data.items()}, **decoded}


def _fields(kind: DataKind, live: Json | None, changed: Mapping[str, bytes | None]) -> Json:
    """What a create or a merge patch says of these values."""
    if kind.hidden:
        data = {key: _encoded(value) for key, value in changed.items()}
        registry = set(changed) == {REGISTRY_KEY}
        type_ = {} if live else {"type": REGISTRY_CREDENTIAL if registry else OPAQUE}
        return {**type_, "data": data}
    texts = {key: text for key, value in changed.items() if (text := _text(value)) is not None}
    binary = {key: _encoded(value) for key, value in changed.items() if key not in texts}
    if live is not None:  # a key is in one of the two
        stored = live.get("binaryData") or {}
        moved = {**binary, **{key: None for key in texts if key in stored}}
        return {
            "data": {**texts, **dict.fromkeys(binary)},
            **({"binaryData": moved} if moved else {}),
        }
    return {key: part for key, part in (("data", texts), ("binaryData", binary)) if part}


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _check_size(kind: DataKind, name: str, values: Mapping[str, bytes | None]) -> None:
    size = size_of({}, {key: _encoded(value) for key, value in values.items()})
    if size > LARGEST_SOURCE:
        elsewhere = "" if kind.hidden else ", or in the image"
        raise CommandError(
            f"{kind.title(name)} would be {-(-size // 1024)} KiB, more than the limit of"
            f" {LARGEST_SOURCE // 1024} KiB",
            Remark(f"put part of it in another {kind.resource.kind}{elsewhere}"),
            code="TooLarge",
        )


async def _users(client: ApiClient, kind: DataKind, name: str) -> list[User]:
    entry = f"{kind.resource.kind}/{name}"
    page = await client.list(compute.WORKLOADS, NAMESPACE)
    return [
        User(each.metadata.name, _rolls(each), bool(each.status.ready_replicas))
        for each in views(page.items, compute.Workload)
        if any(one.entry == entry for one in references_of(each.spec.template.spec))
    ]


def _rolls(workload: compute.Workload) -> bool:
    annotations = workload.spec.template.metadata.annotations
    return annotations.get(ANNOTATION_ROLL_ON_CONFIG_CHANGE) == "true"


def _print_change(
    context: Context,
    kind: DataKind,
    live: Json | None,
    before: Mapping[str, bytes],
    changed: Mapping[str, bytes | None],
) -> None:
    name = context.args.name
    if live is None:
        project = context.target.project
        context.say(
            f"{kind.title(name)} does not exist in project {project}. This will create it:\n"
        )
    else:
        context.say(f"Changes to {kind.title(name)}:\n")
    pairs = []
    for key in sorted(changed):
        old, new = (_shown(kind, key, side.get(key)) for side in (before, changed))
        pairs.append((key, new if live is None else f"{old} → {new}"))
    print_fields(context, pairs if live is None else [*pairs, ("everything else", "unchanged")])


def _shown(kind: DataKind, key: str, value: bytes | None) -> str:
    if value is None:
        return NO_VALUE
    text = _text(value)
    if kind.hidden:
        return MASK
    return f"(binary, {len(value)} bytes)" if text is None else value_text(mask_variable(key, text))


def _print_secret_hint(
    context: Context, kind: DataKind, changed: Mapping[str, bytes | None]
) -> None:
    """Where a ConfigMap is given what looks like a secret."""
    found = [key for key, value in changed.items() if _shown(kind, key, value) == MASK]
    if found and not kind.hidden:
        step = context.command("secrets", "set", context.args.name, *sorted(found))
        context.say(f"Values that look like secrets belong in a Secret:  {step}")


def _print_use(context: Context, kind: DataKind, action: str, users: Sequence[User]) -> None:
    if not users:
        return
    staying = [each.name for each in users if each.runs and not each.rolls]
    waiting = [each.name for each in users if not each.runs]
    rolling = [each.name for each in users if each.runs and each.rolls]
    lines = [f"{_used_by(users)}."]
    if action == "created":
        lines.append("Instances that wait for it start once it is in their city.")
        context.say(" ".join(lines))
        return
    if rolling:
        lines.append(f"The instances of {', '.join(rolling)} are replaced one by one in each city.")
    if staying:
        whose = f" of {', '.join(staying)}" if rolling or waiting else ""
        lines.append(f"Running instances{whose} keep the old values until they restart.")
    if waiting:
        none = f"No instance of {', '.join(waiting)} is ready"
        lines.append(f"{none}; those that start now have the new values.")
    context.say(" ".join(lines))
    steps: list[Suggestion] = [command("restart", each) for each in staying[:MOST_SUGGESTED]]
    steps += [
        command("deploy", each, "--roll-on-config-change") for each in staying[:MOST_SUGGESTED]
    ]
    context.suggest(*steps)


def _used_by(users: Sequence[User]) -> str:
    return f"Used by {', '.join(each.name for each in users)}"


def _show(
    context: Context,
    kind: DataKind,
    obj: Json,
    action: str,
    keys: Sequence[str],
    users: Sequence[User],
) -> None:
    name = obj["metadata"]["name"]
    view: dict[str, Any] = {
        "name": name,
        "action": action,
        "keys": list(keys),
        "usedBy": [each.name for each in users],
        **({"dryRun": True} if context.args.dry_run else {}),
    }
    show(
        context,
        view if kind.hidden else {**view, "object": obj},
        as_table=lambda _: "",
        names=[f"{kind.resource.kind.lower()}/{name}"],
    )
