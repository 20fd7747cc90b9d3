"""``describe``: everything there is to know about one workload or one instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.explain.health import (
    actor_advice,
    assess_placements,
    paragraphs,
    placements_table,
    suggested_commands,
    workload_condition,
    workload_paragraph,
)
from datum_compute.cli.explain.health import workload_health as health_of
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.explain.suggestions import Suggestion, command
from datum_compute.cli.render.output import (
    NONE,
    age,
    cell_text,
    count,
    precise_duration,
    seconds_since,
    show,
    table,
)

Json = Mapping[str, Any]
Fields = Sequence[tuple[str, str]]

EVENTS_SHOWN = 10


def describe_instance(context: Context) -> int:
    name = context.args.name
    found = queries.instance(context, name)
    who = states.instance_identities([found], lambda: queries.deployments(context))[name]
    happened = queries.newest_first(queries.events(context, "Instance", [found]))
    state, message = states.instance_detail(found)
    since = queries.stale_deployments(context).get(states.deployment_name(found), "")
    external, internal = states.instance_addresses(found)
    view = {
        "name": name,
        "workload": who.workload,
        "placement": who.placement,
        "city": who.city,
        "status": states.instance_status(found),
        "stale": bool(since),
        "lastReport": since or None,
        "statusDetail": state,
        "message": message,
        "externalIP": external,
        "internalIP": internal,
        "type": states.runtime_type(found["spec"]),
        "instanceType": states.instance_type(found["spec"]),
        "gates": states.gates(found),
        "created": found["metadata"]["creationTimestamp"],
        "events": happened,
        "object": found,
    }
    show(
        context,
        view,
        as_table=lambda _: _instance_screen(context, found, view),
        names=[f"instance/{name}"],
    )
    context.suggest(*_instance_steps(context, found, who.workload))
    return 0


def _instance_screen(context: Context, found: Json, view: Json) -> str:
    now = context.env.now()
    where = ", ".join(
        part
        for part in (
            view["workload"],
            f"placement {view['placement']}" if view["placement"] else "",
            f"city {view['city']}" if view["city"] else "",
        )
        if part
    )
    fields = [
        ("Instance", view["name"]),
        ("Workload", where),
        ("Status", view["statusDetail"]),
        ("", _stale_note(view["lastReport"], now)),
        ("", view["message"]),
        ("", _advice(found, now)),
        ("Runtime", f"{view['type']}, {cell_text(view['instanceType'])}"),
        *_containers(found["spec"]),
        *_networks(found),
        ("Gates", ", ".join(view["gates"]) or "none"),
        ("Created", f"{age(found['metadata']['creationTimestamp'], now)} ago"),
    ]
    return "\n\n".join(
        (
            _fields(fields),
            conditions_table(found, now, context.width()),
            events_section(view["events"], context.width()),
        )
    )


def _stale_note(since: str | None, now: datetime) -> str:
    if since is None:
        return ""
    lasting = precise_duration(seconds_since(since, now) or 0)
    return f"No answer from the cell for over {lasting}; this is its last report."


def _advice(found: Json, now: datetime) -> str:
    if states.is_true(found, "Ready"):
        return ""
    deepest = states.blocking_condition(found)
    since = seconds_since(str(deepest.get("lastTransitionTime", "")), now) or 0
    return actor_advice(explain(str(deepest.get("reason", ""))), since)


def _instance_steps(context: Context, found: Json, workload: str) -> list[Suggestion | None]:
    if states.is_true(found, "Ready"):
        return []
    reason = str(states.blocking_condition(found).get("reason", ""))
    return [
        explain(reason).next_command(workload, queries.missing_data(context, reason, found)),
        command("why", found["metadata"]["name"]),
    ]


def describe_workload(context: Context) -> int:
    name = context.args.name
    found = queries.workload(context, name)
    deployments = queries.deployments_of(context, found)
    rows = assess_placements(found, deployments, context.env.now())
    instances = queries.instances_of(context, name)
    revision = queries.active_revision(context, found)
    happened = workload_events(context, found, deployments, instances)
    report = health_of(found, rows)
    stale = {
        each.row.deployment: each.blocking_reason.since
        for each in rows
        if each.stale and each.blocking_reason is not None
    }
    own = workload_condition(found, rows)
    view = {
        "name": name,
        "project": context.target.project,
        "image": states.image(found),
        "instanceType": states.instance_type(found["spec"]["template"]["spec"]),
        "revision": revision.value if revision else None,
        "health": report.health.value,
        "healthDetail": report.detail,
        "stale": report.stale,
        "created": found["metadata"]["creationTimestamp"],
        "placements": [each.view() for each in rows],
        "instances": [
            {"name": each["metadata"]["name"], "status": states.instance_status(each)}
            for each in instances
        ],
        "events": happened,
        **({"url": url} if (url := states.url(found)) else {}),
        "object": found,
    }
    now = context.env.now()
    made = f"{age(found['metadata']['creationTimestamp'], now)} ago"
    head: Fields = [
        ("Workload", name),
        ("Project", context.target.project),
        ("Health", view["healthDetail"]),
        ("URL", view.get("url", "")),
        ("Revision", revision.describe_number(now) if revision else ""),
        ("Created", made),
        ("Type", cell_text(view["instanceType"])),
        *_containers(found["spec"]["template"]["spec"]),
        *[("Network", network) for network in _network_names(found["spec"]["template"]["spec"])],
    ]
    rows_text = placements_table(rows, found, width=context.width())

    def screen(_: bool) -> str:
        parts = [
            _fields(head),
            "\n".join([rows_text, *paragraphs(rows), *workload_paragraph(own, now)]),
            conditions_table(found, now, context.width()),
            _instances_table(context, instances, stale),
            events_section(happened, context.width()),
        ]
        return "\n\n".join(part for part in parts if part)

    show(context, view, as_table=screen, names=[f"workload/{name}"])
    context.suggest(*suggested_commands(context, rows, found, own))
    return 0


def workload_events(
    context: Context, workload: Json, deployments: Sequence[Json], instances: Sequence[Json]
) -> list[dict[str, Any]]:
    """Of a workload, its deployments and its instances, newest first."""
    return queries.newest_first(
        [
            *queries.events(context, "Workload", [workload]),
            *queries.events(context, "WorkloadDeployment", deployments),
            *queries.events(context, "Instance", instances),
        ]
    )


def _instances_table(context: Context, instances: Sequence[Json], stale: Mapping[str, str]) -> str:
    if not instances:
        return ""
    now = context.env.now()
    rows = [
        (
            each["metadata"]["name"],
            cell_text(states.instance_address(each)),
            age(each["metadata"]["creationTimestamp"], now),
            states.instance_state(each).cell(
                queries.report_age(stale.get(states.deployment_name(each)), now)
            ),
        )
        for each in instances
    ]
    header = ("INSTANCE", "ADDRESS", "AGE", "STATUS")
    return table(header, rows, colours=context.colours(), width=context.width())


def _fields(fields: Fields) -> str:
    """Titles and values in two columns; a value that is empty is left out."""
    shown = [(title, value) for title, value in fields if value]
    width = max((len(title) for title, _ in shown), default=0)
    return "\n".join(f"{title.ljust(width)}   {value}" for title, value in shown)


def _containers(spec: Json) -> list[tuple[str, str]]:
    sandbox = (spec.get("runtime") or {}).get("sandbox") or {}
    fields: list[tuple[str, str]] = []
    containers = sandbox.get("containers") or []
    for each in containers:
        suffix = f" ({each['name']})" if len(containers) > 1 else ""
        fields.append((f"Image{suffix}", str(each.get("image", NONE))))
        for key in ("command", "args"):
            fields.append((f"{key.capitalize()}{suffix}", " ".join(each.get(key) or [])))
        ports = [f"{p['port']}/{p.get('protocol', 'TCP').lower()}" for p in each.get("ports") or []]
        fields.append((f"Ports{suffix}", ", ".join(ports)))
        # Values may be secret; which variables there are is not.
        variables = [str(variable.get("name", "")) for variable in each.get("env") or []]
        fields.append((f"Env{suffix}", ", ".join(variables)))
    return fields


def _network_names(spec: Json) -> list[str]:
    interfaces = spec.get("networkInterfaces") or []
    return [str((each.get("network") or {}).get("name", NONE)) for each in interfaces]


def _networks(found: Json) -> list[tuple[str, str]]:
    assigned = (found.get("status") or {}).get("networkInterfaces") or []
    fields = []
    for number, network in enumerate(_network_names(found["spec"])):
        addresses = (assigned[number].get("assignments") or {}) if number < len(assigned) else {}
        internal = addresses.get("networkIP") or NONE
        external = addresses.get("externalIP") or NONE
        fields.append(("Network", f"{network}: internal {internal}, external {external}"))
    return fields


def conditions_table(found: Json, now: datetime, width: int | None = None) -> str:
    conditions = (found.get("status") or {}).get("conditions") or []
    if not conditions:
        return "No controller has reported yet."
    rows = [
        (
            str(each.get("type", "")),
            str(each.get("status", "")),
            str(each.get("reason", "")),
            _since(each, now),
            states.clean_message(str(each.get("message", ""))),
        )
        for each in conditions
    ]
    return table(("CONDITION", "IS", "REASON", "SINCE", "MESSAGE"), rows, width=width)


def _since(condition: Json, now: datetime) -> str:
    seconds = seconds_since(str(condition.get("lastTransitionTime", "")), now)
    return NONE if seconds is None else precise_duration(seconds)


def events_section(events: Sequence[Json], width: int | None = None) -> str:
    if not events:
        return "No events in the last hour."
    rows = [
        (cell_text(each["age"]), each["type"], each["reason"], f"x{each['count']}", each["message"])
        for each in events[:EVENTS_SHOWN]
    ]
    text = table(("EVENT", "TYPE", "REASON", "COUNT", "MESSAGE"), rows, width=width)
    more = len(events) - EVENTS_SHOWN
    return f"{text}\nand {count(more, 'older event')}" if more > 0 else text
