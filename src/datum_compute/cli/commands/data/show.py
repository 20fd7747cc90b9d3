"""Lists ConfigMaps and Secrets, and shows the values of a ConfigMap."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.commands.data.kinds import DataKind, Json, type_of
from datum_compute.cli.context import Context
from datum_compute.cli.errors import not_found, unknown
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.queries import keys_of, owner_of
from datum_compute.cli.render.output import age, count, show, table
from datum_compute.cli.render.watch import Screen, present, table_lines
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors

HEADER = ("NAME", "KEYS", "AGE")
WIDE = ("NAME", "KEYS", "TYPE", "AGE")
VALUES = ("KEY", "VALUE")


def show_list(context: Context, kind: DataKind) -> int:
    present(context, lambda: _read_list(context, kind))
    return 0


def _read_list(context: Context, kind: DataKind) -> Screen:
    found = context.reader.list(kind.resource, NAMESPACE)
    own = sorted(
        (each for each in found if not owner_of(each)), key=lambda each: each["metadata"]["name"]
    )
    views = [view_of(context, kind, each) for each in own]
    names = [f"{kind.resource.kind.lower()}/{view['name']}" for view in views]
    what = f"{kind.resource.kind}s"
    if not views:
        project = context.target.project
        return Screen(views, names, footer=queries.nothing_found(what, project, False))
    typed = kind.hidden and context.args.output == "wide"
    rows = [
        (
            view["name"],
            ", ".join(view["keys"]) or "none",
            *((view["type"],) if typed else ()),
            view["age"],
        )
        for view in views
    ]
    text = table(
        WIDE if typed else HEADER,
        rows,
        headers=not context.args.no_headers,
        width=context.width(),
        least=("KEYS",),
    )
    footer = f"\n{count(len(views), kind.resource.kind)}"
    return Screen(views, names, table_lines(text, (), ()), footer)


def view_of(context: Context, kind: DataKind, obj: Json) -> dict[str, Any]:
    """Without the object of a Secret: its values, and annotations in which programs keep them."""
    created = obj["metadata"].get("creationTimestamp")
    view = {
        "name": obj["metadata"]["name"],
        "keys": keys_of(obj),
        "age": age(str(created), context.env.now()) if created else None,
        "created": created,
    }
    return view | ({"type": type_of(obj)} if kind.hidden else {"object": obj})


def show_values(context: Context, kind: DataKind) -> int:
    name, key = context.args.name, context.args.key
    try:
        obj = context.reader.get(kind.resource, name, NAMESPACE)
    except errors.NotFound:
        project, step = context.target.project, kind.list_command
        raise not_found(kind.resource.kind, name, project, step) from None
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    if key is not None and key not in keys_of(obj):
        step = command("config", "show", name)
        raise unknown("key", key, keys_of(obj), step, f" in {kind.title(name)}")
    shown = {each: _value(data, binary, each) for each in ([key] if key else keys_of(obj))}
    view = {**view_of(context, kind, obj), "data": {each: data.get(each) for each in shown}}
    rows = [(each, _one_line(value)) for each, value in shown.items()]
    headers = not context.args.no_headers

    def as_table(_: bool) -> str:
        if key:
            return shown[key]
        return table(VALUES, rows, headers=headers, width=context.width())

    if rows or not context.tables:
        show(context, view, as_table=as_table, names=[f"configmap/{name}"])
    else:
        context.say(f"{kind.title(name)} has no keys.")
    return 0


def _value(data: Json, binary: Json, key: str) -> str:
    if key in data:
        return str(data[key])
    return f"(binary, {count(len(a2b_base64(str(binary[key]))), 'byte')})"


def _one_line(value: str) -> str:
    lines = value.splitlines() or [""]
    return lines[0] if len(lines) == 1 else f"{lines[0]} … ({len(lines)} lines)"
