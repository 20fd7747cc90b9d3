"""Plain reads that several commands make: a workload with its deployments, events, cities.

Everything here goes through the synchronous reader and gives plain JSON values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from datum_compute.api.compute.constants import LABEL_TOPOLOGY_CITY_CODE
from datum_compute.cli.context import Context
from datum_compute.cli.errors import not_found, unknown
from datum_compute.cli.explain import states
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.render.output import age, seconds_since
from datum_compute.cli.tables import (
    CONFIG_MAPS,
    EVENTS,
    INSTANCES,
    LOCATION_BINDINGS,
    NAMESPACE,
    WORKLOAD_DEPLOYMENTS,
    WORKLOADS,
)
from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.cli.explain.missing_data import Missing
    from datum_compute.cli.history.entries import Revisions

Json = dict[str, Any]


def workload(context: Context, name: str) -> Json:
    try:
        return context.reader.get(WORKLOADS, name, NAMESPACE)
    except errors.NotFound:
        raise no_workload(context, name) from None


def no_workload(context: Context, name: str) -> Exception:
    return not_found("workload", name, context.target.project, command("workloads"))


def instance(context: Context, name: str) -> Json:
    try:
        return context.reader.get(INSTANCES, name, NAMESPACE)
    except errors.NotFound:
        project = context.target.project
        suggestion = command("instances")
        if instances_of(context, name):
            suggestion = command("instances", "--workload", name)
        raise not_found("instance", name, project, suggestion) from None


def deployments_of(context: Context, found: Mapping[str, Any]) -> list[Json]:
    selector = f"{states.API_PREFIX}workload-uid={found['metadata']['uid']}"
    return context.reader.list(WORKLOAD_DEPLOYMENTS, NAMESPACE, label_selector=selector)


def deployments(context: Context) -> list[Json]:
    return context.reader.list(WORKLOAD_DEPLOYMENTS, NAMESPACE)


def stale_deployments(context: Context) -> dict[str, str]:
    """Deployments whose cell does not answer, with the time since when."""
    since = {
        each["metadata"]["name"]: states.unreachable_since(each) for each in deployments(context)
    }
    return {name: time for name, time in since.items() if time}


def report_age(since: str | None, now: datetime) -> str:
    """What a list adds to a state that may be old; empty for a current one."""
    return states.report_age(seconds_since(since, now) or 0) if since else ""


def instances_of(context: Context, name: str) -> list[Json]:
    """A workload's Instances, by city and ordinal."""
    found = context.reader.list(INSTANCES, NAMESPACE)
    known = states.instance_identities(found, lambda: deployments(context))
    mine = [each for each in found if known[each["metadata"]["name"]].workload == name]
    return sorted(mine, key=lambda each: instance_sort_key(each, known))


def instance_sort_key(
    instance: Mapping[str, Any], known: Mapping[str, states.InstanceIdentity]
) -> tuple[str, str, str, int, str]:
    """Sorts Instances by workload, city and ordinal."""
    name = str(instance["metadata"]["name"])
    who = known[name]
    return who.workload, who.city, who.placement, states.ordinal(instance), name


def city_of(binding: Mapping[str, Any]) -> str:
    topology = (binding.get("spec") or {}).get("topology") or {}
    return str(topology.get(LABEL_TOPOLOGY_CITY_CODE, ""))


def location_bindings(context: Context) -> list[Json]:
    return sorted(context.reader.list(LOCATION_BINDINGS), key=city_of)


def require_city(context: Context, city: str, seen: Iterable[str] = ()) -> None:
    """Raise unless the project may use the city, or it is one of those ``seen``."""
    known = {each.upper() for each in seen}
    if city.upper() in known:
        return
    known |= {city_of(each).upper() for each in location_bindings(context)} - {""}
    if city.upper() not in known:
        raise unknown("city", city, sorted(known), command("cities"))


class ActiveRevision(NamedTuple):
    """The entry of a workload's history that is active."""

    number: int
    when: str
    actor: str
    drifted: bool = False
    """Whether there was an external change since."""

    @property
    def value(self) -> int | None:
        """For programs: the workload's revision; none after an external change."""
        return None if self.drifted else self.number

    def describe(self, now: datetime) -> str:
        return (
            self.describe_number(now) if self.drifted else f"revision {self.describe_number(now)}"
        )

    def describe_number(self, now: datetime) -> str:
        """The text of a field named Revision."""
        if self.drifted:
            return f"external change since revision #{self.number}"
        by = f" by {self.actor}" if self.actor else ""
        return f"#{self.number}, {age(self.when, now)} ago{by}"


def active_revision(context: Context, workload: Mapping[str, Any]) -> ActiveRevision | None:
    """None where no history was kept, or none that can be read."""
    try:
        active = revisions(context, workload).active
    except errors.StatusError:
        return None
    if active is None:
        return None
    drifted = active.spec is not None and not active.matches_spec(workload["spec"])
    return ActiveRevision(active.rev, active.timestamp, active.actor, drifted)


def revisions(context: Context, workload: Mapping[str, Any]) -> Revisions:
    """The workload's history, with a change that its command has not recorded yet as the revision
    that it becomes; empty where none was kept. Raises if it may not be read."""
    from datum_compute.cli.history import entries

    recorded, last = entries.Revisions(), 0
    try:
        found = context.reader.get(CONFIG_MAPS, entries.history_name(workload), NAMESPACE)
    except errors.NotFound:
        pass
    else:
        recorded = entries.revisions_of(found, workload)
        last = entries.last_number(found) if entries.is_history_of(found, workload) else 0
    noted = entries.noted_entry(recorded, workload, context.env.now())
    return recorded if noted is None else entries.append_entries(recorded, [noted], last=last)


def reconnect_command(context: Context, city: str) -> Command | None:
    """Where a local platform on this machine has disconnected the cell of the city."""
    directory = context.target.local_directory
    if not directory:
        return None
    from datum_compute.assembly.local.state_reader import StateReader, StateUnusable

    try:
        cells = StateReader(directory).disconnected()
    except StateUnusable:
        return None
    return command("local", "cell", "connect", city.upper()) if city.lower() in cells else None


def events(context: Context, kind: str, objects: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Events on these objects as flat views, unsorted; :func:`newest_first` sorts them. Not those
    of an earlier object of the same name; one that names no UID counts."""
    uids = {str(each["metadata"]["name"]): each["metadata"].get("uid") for each in objects}
    if not uids:
        return []
    selector = f"involvedObject.kind={kind}"
    if len(uids) == 1:
        selector += f",involvedObject.name={next(iter(uids))}"
    try:
        listed = context.reader.list(EVENTS, NAMESPACE, field_selector=selector)
    except errors.StatusError:  # the user may not read Events; the command goes on without
        return []
    now = context.env.now()
    return [_event_view(each, kind, now) for each in listed if _is_about(each, uids)]


def _is_about(event: Json, uids: Mapping[str, str | None]) -> bool:
    involved = event.get("involvedObject") or {}
    name = involved.get("name", "")
    return name in uids and involved.get("uid") in (None, "", uids[name])


def newest_first(found: Sequence[Json]) -> list[Json]:
    ordered = sorted(found, key=lambda each: (each["when"], each["order"]), reverse=True)
    return [{key: value for key, value in each.items() if key != "order"} for each in ordered]


def _event_view(event: Json, kind: str, now: datetime) -> Json:
    name = (event.get("involvedObject") or {}).get("name", "")
    series = event.get("series") or {}
    times = (
        event.get("lastTimestamp"),
        series.get("lastObservedTime"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    version = str(event["metadata"].get("resourceVersion", ""))
    when = next((str(time) for time in times if time), "")
    return {
        "when": when,
        # Events of one second are ordered by the order in which they were stored.
        "order": int(version) if version.isdecimal() else 0,
        "age": age(when, now) if when else None,
        "type": event.get("type", "Normal"),
        "reason": event.get("reason", ""),
        "count": event.get("count") or series.get("count") or 1,
        "message": states.clean_message(str(event.get("message", ""))),
        "about": f"{kind.lower()}/{name}",
    }


ROOT_CERTIFICATES = "kube-root-ca.crt"
"""A ConfigMap that Kubernetes keeps in every namespace."""


def missing_data(context: Context, reason: str, subject: Mapping[str, Any]) -> list[Missing]:
    """The data that a Workload or an Instance names and that does not exist, where the reason
    concerns data."""
    if not explain(reason).concerns_data:
        return []
    from datum_compute.cli.explain.missing_data import read_missing_plainly  # slow to load

    template = subject["spec"].get("template") or {"spec": subject["spec"]}
    return read_missing_plainly(context, template)


def keys_of(data: Mapping[str, Any]) -> list[str]:
    """The keys of a ConfigMap or a Secret."""
    return sorted([*(data.get("data") or {}), *(data.get("binaryData") or {})])


def owner_of(data: Mapping[str, Any]) -> str:
    """What a ConfigMap or a Secret belongs to, as a history to its workload; empty for a user's
    own."""
    owners = data["metadata"].get("ownerReferences") or []
    if owners:
        return f'{owners[0]["kind"]} "{owners[0]["name"]}"'
    return "Kubernetes" if data["metadata"]["name"] == ROOT_CERTIFICATES else ""


def nothing_found(what: str, project: str, filtered: bool) -> str:
    return f"No {what} {'match ' if filtered else ''}in project {project}."
