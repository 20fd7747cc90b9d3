"""``status NAME``: one screen about one workload."""

from __future__ import annotations

import argparse
from typing import Any

from datum_compute.cli import words
from datum_compute.cli.context import Context
from datum_compute.cli.errors import not_found
from datum_compute.cli.names import workload_name
from datum_compute.cli.output import add_output_flags, age, show, table
from datum_compute.cli.resources import WORKLOAD_DEPLOYMENTS, WORKLOADS
from datum_compute.cli.target import NAMESPACE
from datum_compute.client.errors import NotFound


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n  datumctl-compute status hello\n  datumctl-compute status hello -o json"
    )
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_output_flags(parser)


def run(context: Context) -> int:
    name = context.args.name
    reader = context.target.reader()
    try:
        workload = reader.get(WORKLOADS, name, NAMESPACE)
    except NotFound:
        project = context.target.project
        raise not_found("workload", name, project, "datumctl-compute instances") from None
    uid = workload["metadata"]["uid"]
    selector = f"compute.datumapis.com/workload-uid={uid}"
    deployments = reader.list(WORKLOAD_DEPLOYMENTS, NAMESPACE, label_selector=selector)
    view = _view(workload, deployments)
    show(
        context,
        view,
        as_table=lambda _: _screen(context, workload, view),
        names=[f"workload/{name}"],
    )
    return 0


def _view(workload: dict[str, Any], deployments: list[dict[str, Any]]) -> dict[str, Any]:
    found = {(d["spec"]["placementName"], d["spec"]["cityCode"]): d for d in deployments}
    rows = [
        _row(placement, city, found.get((placement["name"], city)))
        for placement in workload["spec"]["placements"]
        for city in placement["cityCodes"]
    ]
    return {
        "name": workload["metadata"]["name"],
        "image": words.image(workload),
        "health": words.health(workload),
        "placements": rows,
        "object": workload,
    }


def _row(placement: dict[str, Any], city: str, deployment: dict[str, Any] | None) -> dict[str, Any]:
    status = (deployment or {}).get("status") or {}
    desired = status.get("desiredReplicas", placement["scaleSettings"]["minReplicas"])
    row = {
        "placement": placement["name"],
        "city": city,
        "ready": status.get("readyReplicas", 0),
        "upToDate": status.get("updatedReplicas", 0),
        "desired": desired,
    }
    if deployment is not None and row["ready"] < desired:
        row["reason"], row["message"] = words.why_not_ready(deployment)
    elif deployment is None:
        row["reason"], row["message"] = "Pending", "No deployment exists for this city yet"
    return row


def _screen(context: Context, workload: dict[str, Any], view: dict[str, Any]) -> str:
    rows = _rows(workload, view)
    if context.args.no_headers:
        return table((), rows, headers=False)
    made = age(workload["metadata"]["creationTimestamp"], context.env.now())
    lines = [
        f"Workload   {view['name']}   project {context.target.project}",
        f"Image      {view['image']}   created {made} ago",
        f"Health     {view['health']}",
        "",
    ]
    lines.append(table(("PLACEMENT", "CITY", "READY", "UP-TO-DATE", "DESIRED", "TYPE"), rows))
    for row in view["placements"]:
        if row.get("reason"):
            lines.append(f"\n{row['city']}  {row['reason']}: {row['message']}")
    return "\n".join(lines)


def _rows(workload: dict[str, Any], view: dict[str, Any]) -> list[tuple[str, ...]]:
    kind = words.instance_type(workload["spec"]["template"]["spec"])
    return [
        (
            row["placement"],
            row["city"],
            f"{row['ready']}/{row['desired']}",
            f"{row['upToDate']}/{row['desired']}",
            str(row["desired"]),
            kind,
        )
        for row in view["placements"]
    ]
