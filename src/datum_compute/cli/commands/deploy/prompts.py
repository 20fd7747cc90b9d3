"""The prompts of a deploy without arguments, each repeated until the answer is valid.

The defaults are the values of an existing workload of that name; an empty line accepts one. The end
of input declines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datum_compute.api.compute.instance_types import (
    INSTANCE_TYPE_D1_STANDARD_2,
    INSTANCE_TYPES,
    full_name,
)
from datum_compute.cli import queries
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import changed_workload, new_workload
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain import states
from datum_compute.cli.names import NEW_WORKLOAD_LIMIT, is_name
from datum_compute.cli.tables import NAMESPACE, WORKLOADS
from datum_compute.client import errors

Json = dict[str, Any]
Check = Callable[[str], str]
"""Returns what is wrong with an answer; empty if it is valid."""


def prompt_for_workload(context: Context) -> tuple[str, Flags]:
    """A workload's name, and what the answers say about it."""
    name = _ask(context, "Name", "", _check_name)
    live = _live(context, name)
    now = _answers_of(live)
    cities = _served(context)
    types = ", ".join(each.short_name for each in INSTANCE_TYPES.values())
    image = _ask(context, "Image", now["image"], lambda text: _check(Flags(image=text)))
    kind = _ask(context, f"Instance type ({types})", now["type"], _check_type)
    where = _ask(
        context, f"Cities ({', '.join(cities)})", now["cities"], lambda t: _check_cities(t, cities)
    )
    number = _ask(context, "Instances in each city", now["minimum"], _check_number)
    port = _ask(context, "Port, or none", now["port"], _check_port)
    context.say()
    return name, Flags(
        image=image,
        cities=_cities(where),
        minimum=int(number),
        instance_type=kind,
        ports=() if port in ("none", now["port"]) else (port,),
    )


def _ask(context: Context, question: str, default: str, check: Check) -> str:
    offered = f" [{default}]" if default else ""
    while True:
        line = context.ask(f"{question}{offered}: ")
        if not line:
            context.say()
            raise CommandError("declined", exit_code=Exit.DECLINED, code="Declined")
        answer = line.strip() or default
        wrong = check(answer) if answer else "a value is required"
        if not wrong:
            return answer
        context.say(f"  {wrong}")


def _check_name(text: str) -> str:
    if is_name(text) and "." not in text and len(text) <= NEW_WORKLOAD_LIMIT:
        return ""
    return 'use lower-case letters, digits and "-", beginning and ending with a letter or a digit'


def _check(flags: Flags) -> str:
    """The error that a deploy with these flags would report."""
    try:
        changed_workload(new_workload("any", Flags(image="any", cities=("ANY",))), flags)
    except CommandError as error:
        return error.message
    return ""


def _check_type(text: str) -> str:
    return (
        "" if full_name(text) in INSTANCE_TYPES else f"expected one of {', '.join(INSTANCE_TYPES)}"
    )


def _check_cities(text: str, served: list[str]) -> str:
    unknown = [city for city in _cities(text) if city not in served]
    if unknown:
        return f"{', '.join(unknown)} is not served; choose from {', '.join(served) or 'none'}"
    return "" if _cities(text) else "expected at least one city"


def _cities(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.upper() for c in text.replace(",", " ").split()))


def _check_number(text: str) -> str:
    usable = text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= 1000
    return "" if usable else "expected a number from 1 to 1000"


def _check_port(text: str) -> str:
    return "" if text == "none" else _check(Flags(ports=(text,)))


def _live(context: Context, name: str) -> Json | None:
    try:
        return context.reader.get(WORKLOADS, name, NAMESPACE)
    except errors.NotFound:
        return None


def _answers_of(live: Json | None) -> dict[str, str]:
    if live is None:
        kind = INSTANCE_TYPES[INSTANCE_TYPE_D1_STANDARD_2].short_name
        return {"image": "", "type": kind, "cities": "", "minimum": "1", "port": "none"}
    placements = live["spec"]["placements"]
    ports = _ports(live)
    return {
        "image": states.image(live) or "",
        "type": states.instance_type(live["spec"]["template"]["spec"]) or "",
        "cities": ",".join(placements[0]["cityCodes"]),
        "minimum": str(placements[0]["scaleSettings"]["minReplicas"]),
        "port": str(ports[0]["port"]) if ports else "none",
    }


def _ports(live: Json) -> list[Json]:
    runtime = live["spec"]["template"]["spec"].get("runtime") or {}
    containers: list[Json] = (runtime.get("sandbox") or {}).get("containers") or [{}]
    found: list[Json] = containers[0].get("ports") or []
    return found


def _served(context: Context) -> list[str]:
    bindings = queries.location_bindings(context)
    return [queries.city_of(each) for each in bindings if states.is_true(each, "Available")]
