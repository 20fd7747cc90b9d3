"""The output of a command that writes: what was done to which workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api.compute.constants import LABEL_CITY_CODE
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.render.output import cell_text, show, table

Json = Mapping[str, Any]


def result(
    workload: Json,
    action: str,
    instances: Sequence[Json] | None = None,
    revision: int | None = None,
) -> dict[str, Any]:
    """A flat view of one workload after ``action``, with the raw object; ``instances`` where
    the command has waited for them, ``revision`` where its history has one."""
    return {
        "name": workload["metadata"]["name"],
        "action": action,
        "image": states.image(workload),
        "revision": revision,
        "url": states.url(workload),
        "instances": None
        if instances is None
        else [
            {"name": name, "city": city, "address": address}
            for city, name, address in _instance_rows(instances)
        ],
        "object": workload,
    }


def show_results(
    context: Context, results: Sequence[dict[str, Any]], *, several: bool = False
) -> None:
    """One result as itself, several as a list, also where only one of ``several`` is left; as a
    table the instances of what was changed, if there are any, and the URLs."""
    rows = [
        (each["city"], each["name"], cell_text(each["address"]))
        for view in results
        if view["action"] != "unchanged"
        for each in view["instances"] or ()
    ]
    headers = not context.args.no_headers
    header = ("CITY", "INSTANCE", "ADDRESS")
    drawn = [table(header, rows, headers=headers, width=context.width())] if rows else []
    urls = [view["url"] for view in results if view["url"]]
    drawn += ["\n".join(["", *urls] if drawn and headers else urls)] if urls else []
    show(
        context,
        results if several or len(results) != 1 else results[0],
        as_table=lambda _: "\n".join(drawn),
        names=[f"workload/{view['name']}" for view in results],
    )


def _instance_rows(instances: Sequence[Json]) -> list[tuple[str, str, str | None]]:
    ordered = sorted(instances, key=lambda i: (states.label(i, LABEL_CITY_CODE), states.ordinal(i)))
    return [
        (states.label(i, LABEL_CITY_CODE), i["metadata"]["name"], states.instance_address(i))
        for i in ordered
    ]
