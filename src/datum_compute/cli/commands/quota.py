"""``quota``: the project's limits, their usage, and what was refused."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api.compute.quota_resources import QUOTA_RESOURCES
from datum_compute.api.compute.reasons import CONDITION_QUOTA_GRANTED, REASON_QUOTA_EXCEEDED
from datum_compute.api.planes import MILO_SYSTEM_NAMESPACE
from datum_compute.cli import queries
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.render.output import add_output_flags, count, table
from datum_compute.cli.render.watch import Screen, ScreenLine, present
from datum_compute.cli.tables import ALLOWANCE_BUCKETS, INSTANCES, NAMESPACE

HEADER = ("RESOURCE", "UNIT", "LIMIT", "USED", "AVAILABLE", "USAGE")
LEAST = ("UNIT", "LIMIT", "USED")
BAR = 20
CONSTRAINED = 0.8
"""A resource counts as constrained from this share in use. A guess."""

UNITS = {"instances": "instances", "vcpus": "cores", "memory": "GiB"}
"""Resource -> the unit people read."""

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "quota", "quota --constrained", "quota -o json")
    parser.add_argument(
        "--constrained",
        action="store_true",
        help=f"only resources used at {CONSTRAINED:.0%}% or more, or with refusals",
    )
    add_output_flags(
        parser,
        "`resource`, `unit`, `limit`, `used`, `available`, `usage` (a share of 1), `cities`"
        " (`city`, `inUse`, `refused`, `messages`)",
    )


def run(context: Context) -> int:
    present(context, lambda: _read_screen(context))
    return 0


def read_views(context: Context) -> tuple[list[Json], list[Json]]:
    """Each resource, and what each city uses."""
    buckets = context.reader.list(ALLOWANCE_BUCKETS, MILO_SYSTEM_NAMESPACE)
    ours = [b for b in buckets if str(_resource(b)).startswith(states.API_PREFIX)]
    instances = context.reader.list(INSTANCES, NAMESPACE)
    cities = _cities(context, instances)
    views = sorted((_view(bucket) for bucket in ours), key=_position)
    for view in views:
        if view["resource"] == "instances":
            view["cities"] = cities
    return views, cities


def _read_screen(context: Context) -> Screen:
    views, cities = read_views(context)
    if context.args.constrained:
        instances = context.reader.list(INSTANCES, NAMESPACE)
        short = _short_resources(instances, {v["resource"]: _available(v["object"]) for v in views})
        views = [v for v in views if v["usage"] >= CONSTRAINED or v["resource"] in short]
    names = [f"quota/{view['resource']}" for view in views]
    return Screen(views, names, _lines(context, views, cities), _footer(context, views, cities))


def _resource(bucket: Json) -> str:
    return str((bucket.get("spec") or {}).get("resourceType", ""))


def _position(view: Json) -> tuple[int, str]:
    known = list(UNITS)
    name = view["resource"]
    return (known.index(name) if name in known else len(known)), name


def _view(bucket: Json) -> Json:
    name = _resource(bucket).removeprefix(states.API_PREFIX)
    unit = UNITS.get(name, name)
    factor = QUOTA_RESOURCES[name].factor if name in QUOTA_RESOURCES else 1
    status = bucket.get("status") or {}
    limit, used = status.get("limit", 0), status.get("allocated", 0)
    return {
        "resource": name,
        "unit": unit,
        "limit": _amount(limit, factor),
        "used": _amount(used, factor),
        "available": _amount(_available(bucket), factor),
        "usage": round(used / limit, 4) if limit else 1.0,
        "object": bucket,
    }


def _available(bucket: Json) -> int:
    """In base units."""
    status = bucket.get("status") or {}
    left = max(0, status.get("limit", 0) - status.get("allocated", 0))
    return int(status.get("available", left))


def _amount(base: int, factor: int) -> int | float:
    return base // factor if base % factor == 0 else round(base / factor, 2)


def _short_resources(instances: Sequence[Json], available: Mapping[str, int]) -> set[str]:
    """What Instances that exceeded the quota need more of than is available."""
    refused = [each for each in instances if _granted(each).get("reason") == REASON_QUOTA_EXCEEDED]
    if not refused:
        return set()
    from datum_compute.cli.headroom import instance_size

    return {
        name
        for each in refused
        for name, amount in instance_size(each["spec"]).items()
        if amount > available.get(name, 0)
    }


def _granted(instance: Json) -> Mapping[str, Any]:
    return states.condition(instance, CONDITION_QUOTA_GRANTED)


def _cities(context: Context, instances: Sequence[Json]) -> list[Json]:
    """Per city, how many Instances hold quota, and why the others were refused."""
    known = states.instance_identities(instances, lambda: queries.deployments(context))
    cities: dict[str, Json] = {}
    for instance in instances:
        city = known[instance["metadata"]["name"]].city
        entry = cities.setdefault(city, {"city": city, "inUse": 0, "refused": 0, "messages": []})
        granted = _granted(instance)
        if granted.get("status") == "True":
            entry["inUse"] += 1
        elif granted.get("status") == "False":
            entry["refused"] += 1
            message = states.clean_message(str(granted.get("message") or granted.get("reason", "")))
            if message not in entry["messages"]:
                entry["messages"].append(message)
    return [cities[city] for city in sorted(cities)]


def _lines(context: Context, views: Sequence[Json], cities: Sequence[Json]) -> list[ScreenLine]:
    headers = not context.args.no_headers
    rows = [
        (
            view["resource"],
            view["unit"],
            str(view["limit"]),
            str(view["used"]),
            str(view["available"]),
            bar(view["usage"]),
        )
        for view in views
    ]
    width = context.width()
    parts = [table(HEADER, rows, headers=headers, width=width, least=LEAST)] if rows else []
    if cities and not context.args.constrained and headers:
        in_use = [(city["city"], str(city["inUse"]), str(city["refused"])) for city in cities]
        parts.append(table(("CITY", "INSTANCES", "REFUSED"), in_use, width=width))
    return [ScreenLine("quota", "\n\n".join(parts))] if parts else []


def bar(usage: float) -> str:
    """A bar of twenty characters and the share; any usage shows, and only full usage fills it."""
    share = min(1.0, max(0.0, usage))
    filled = round(share * BAR)
    if 0 < share < 1:
        filled = min(BAR - 1, max(1, filled))
    return "█" * filled + "░" * (BAR - filled) + f" {usage:4.0%}"


def _footer(context: Context, views: Sequence[Json], cities: Sequence[Json]) -> str:
    if not views:
        project = context.target.project
        if context.args.constrained:
            return f"Nothing is constrained in project {project}."
        return f"No quota is set for compute in project {project}."
    lines = [
        f"{city['city']}: {count(city['refused'], 'instance')} refused: {message}"
        for city in cities
        for message in city["messages"]
    ]
    return "\n" + "\n".join(lines) if lines else ""
