"""The history records every change once, in order, and an undo restores any of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import ANNOTATION_LAST_CHANGE
from datum_compute.api.core import CONFIG_MAPS
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import new_workload
from datum_compute.cli.commands.rollout.undo import restore_spec
from datum_compute.cli.history import entries as histories
from datum_compute.cli.history.config_map import ConfigMapHistory
from datum_compute.cli.history.entries import (
    NAME_PREFIX,
    Entry,
    Revisions,
    append_entries,
    change_annotation,
    new_entry,
)
from datum_compute.cli.session import to_dict
from datum_compute.client import errors
from datum_compute.client.protocol import Client, json_patch, merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.cli.intercepted_session import InterceptedSession
from tests.support.cli.session import CliSession, cli_session

NAME = f"{NAME_PREFIX}api"
RESTARTED = "compute.datumapis.com/restartedAt"


def history_of(here: CliSession) -> list[Any]:
    return list(reversed(here.run("rollout history api -o json").json))


def spec_of(here: CliSession) -> dict[str, Any]:
    found: dict[str, Any] = here.run("status api -o json").json["object"]["spec"]
    return found


def labels_of(here: CliSession) -> dict[str, str]:
    metadata: dict[str, Any] = here.run("status api -o json").json["object"]["metadata"]
    return metadata.get("labels") or {}


def edited(here: CliSession, **spec: Any) -> None:
    """Change a workload without recording it."""
    patch = merge({"spec": spec})
    here.act(here.client().patch(compute.WORKLOADS, "api", patch, "default"))


def without_restart(spec: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(spec))
    copy["template"].get("metadata", {}).get("annotations", {}).pop(RESTARTED, None)
    metadata = copy["template"].get("metadata", {})
    if not metadata.get("annotations"):
        copy["template"].pop("metadata", None)
    return copy


PLACEMENT = {
    "name": "default",
    "cityCodes": ["DFW", "LHR"],
    "scaleSettings": {"minReplicas": 3, "instanceManagementPolicy": "OrderedReady"},
}


def ten_changes(here: CliSession) -> list[dict[str, Any]]:
    """Each followed by the spec it left."""
    specs = []
    for command in (
        "deploy api --image=a/api:1 --city=DFW,LHR --message first",
        "deploy api --image=a/api:2 --env=LOG=info",
        "scale api --min 2 --message 'more of it'",
        "restart api",
        None,
        "deploy api --env=LOG-",
        "rollout restart api --city LHR",
        "scale api --min 1",
        "deploy api --city=DFW --yes",
    ):
        here.wait(10)
        if command is None:
            edited(here, placements=[PLACEMENT])
        else:
            result = here.run(command)
            assert result.code == 0, result.err
        specs.append(spec_of(here))
    here.wait(10)
    assert here.run("rollout undo api --to-revision 3 --yes").code == 0
    return [*specs, spec_of(here)]


RECORDED = [
    ("created", "local-admin"),
    ("image 1 → 2, env LOG", "local-admin"),
    ("min replicas (default) 1 → 2", "local-admin"),
    ("restart", "local-admin"),
    ("external change: min replicas (default) 2 → 3", ""),
    ("env LOG", "local-admin"),
    ("restart in LHR", "local-admin"),
    ("min replicas (default) 3 → 1", "local-admin"),
    ("cities (default) -LHR", "local-admin"),
    ("rollback to #3", "local-admin"),
]


def test_ten_changes_are_listed_with_their_authors() -> None:
    with cli_session() as here:
        specs = ten_changes(here)

        found = history_of(here)

        assert [(each["changes"], each["actor"]) for each in found] == RECORDED
        assert [each["revision"] for each in found] == list(range(1, 11))
        assert [each["object"]["spec"] for each in found] == specs
        assert [each["active"] for each in found] == [False] * 9 + [True]
        assert found[0]["message"] == "first"
        assert found[2]["message"] == "more of it"
        assert [each["image"] for each in found] == ["a/api:1"] + ["a/api:2"] * 9
        moments = [each["when"] for each in found]
        assert moments == sorted(moments)


def test_undo_restores_every_revision_and_the_history_only_grows() -> None:
    with cli_session() as here:
        specs = ten_changes(here)
        for rev, spec in enumerate(specs, 1):
            before = spec_of(here)
            result = here.run(f"rollout undo api --to-revision {rev} --yes --no-wait")

            assert result.code == 0, result.err
            assert without_restart(spec_of(here)) == without_restart(spec)
            kept = before["template"].get("metadata"), spec_of(here)["template"].get("metadata")
            assert kept[0] == kept[1], "when it was restarted last is not restored"
        numbers = [each["revision"] for each in history_of(here)]
        assert numbers == sorted(numbers)
        assert len(numbers) > 10


def test_the_hint_after_an_undo_reverts_it() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW")
        here.run("deploy api --image=a/api:2")
        before = spec_of(here)

        result = here.run("rollout undo api --yes")
        assert spec_of(here)["template"] != before["template"]
        hint = result.err.partition("Try:  datumctl-compute ")[2].strip()

        assert hint == "rollout undo api --to-revision 2"
        assert here.run(f"{hint} --yes").code == 0
        assert spec_of(here) == before


def test_two_undos_restore_the_spec_and_both_are_recorded() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW")
        here.run("deploy api --image=a/api:2")
        before = spec_of(here)

        for _ in range(2):
            assert here.run("rollout undo api --yes").code == 0

        assert spec_of(here) == before
        recorded = [each["changes"] for each in history_of(here)]
        assert recorded[2:] == ["rollback to #1", "rollback to #2"]


def test_undo_after_a_restart_skips_no_release() -> None:
    with cli_session("DFW") as here:
        for image in (1, 2):
            here.run(f"deploy api --image=u:{image} --city=DFW --no-wait")
        here.run("restart api --no-wait")
        before = spec_of(here)

        result = here.run("rollout undo api --yes --no-wait")

        assert result.code == 0
        same = "revision #3 has the same template, placements and labels."
        assert f'"api" is already as in revision #2: {same}' in result.err
        assert "Try:  datumctl-compute rollout undo api --to-revision 1" in result.err
        assert spec_of(here) == before, "to take the restart back would restart everything again"
        assert len(history_of(here)) == 3


@pytest.mark.parametrize(
    ("since", "restored"),
    [
        ("deploy api --image=u:3", "image   u:3 → u:2"),
        ("scale api --min 2", "min replicas (default)   2 → 1"),
        ("deploy api --label=team=b", "label team   b → (none)"),
    ],
)
def test_undo_reverts_the_last_change_and_no_release_before_it(since: str, restored: str) -> None:
    with cli_session("DFW") as here:
        for image in (1, 2):
            here.run(f"deploy api --image=u:{image} --city=DFW --no-wait")
        before = spec_of(here), labels_of(here)
        here.run(f"{since} --no-wait")
        after = spec_of(here), labels_of(here)

        result = here.run("rollout undo api --yes --no-wait")

        assert result.code == 0
        assert 'Rolling "api" back to revision #2 (revision #3 → #4)' in result.err
        assert restored in result.err
        assert (spec_of(here), labels_of(here)) == before
        assert here.run("rollout undo api --yes --no-wait").code == 0
        assert (spec_of(here), labels_of(here)) == after, "the undo is undone"


def test_undo_restores_the_labels_of_the_revision_and_shows_them() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a/api:1 --city=DFW --label=team=a --label=tier=1 --no-wait")
        here.run("deploy api --image=a/api:2 --label=team=b --label=tier- --no-wait")

        result = here.run("rollout undo api --yes --no-wait")

        assert "label team   b → a" in result.err
        assert labels_of(here) == {"team": "a", "tier": "1"}
        here.run("rollout undo api --to-revision 2 --yes --no-wait")
        assert labels_of(here) == {"team": "b"}
        shown = here.run("rollout history api --revision 2").out
        assert "label team   a → b" in shown


def test_undo_of_a_rollout_that_replaced_nothing_yet_replaces_nothing() -> None:
    with cli_session("DFW") as here:
        assert here.run("deploy api --image=a/api:1 --city=DFW").code == 0
        before = here.run("instances -o json").json[0]["object"]["metadata"]["uid"]
        here.run("deploy api --env-from=config/settings --no-wait")
        here.wait(30)

        result = here.run("rollout undo api --yes")

        assert result.code == 0, result.err
        assert "Every instance runs it already." in result.err
        assert "replaced" not in result.err
        assert here.run("instances -o json").json[0]["object"]["metadata"]["uid"] == before


def test_undo_says_which_data_is_missing() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a/api:1 --city=DFW --env-from=config/settings --no-wait")
        here.run("deploy api --env-from=config/settings- --no-wait")

        result = here.run("rollout undo api --yes --no-wait")

        assert 'New instances wait: ConfigMap "settings" does not exist' in result.err
        assert "Create it:  datumctl-compute config set settings KEY=VALUE" in result.err


def test_the_history_is_owned_by_its_workload_and_deleted_with_it() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW")
        found = to_dict(here.act(here.client().get(CONFIG_MAPS, NAME, "default")))
        workload = here.run("status api -o json").json["object"]

        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Workload", workload["metadata"]["uid"])
        assert found["metadata"]["annotations"]["compute.datumapis.com/current-revision"] == "1"
        entry = json.loads(found["data"]["1"])
        keys = {"rev", "timestamp", "image", "changes", "actor", "templateHash", "spec", "labels"}
        assert set(entry) == keys

        here.run("destroy api --yes")
        here.run("deploy api --image=a/api:9 --city=DFW")
        assert [each["image"] for each in history_of(here)] == ["a/api:9"]


async def test_a_recreated_workload_does_not_take_over_the_old_history() -> None:
    async with embedded_server() as embedded:
        client, env = embedded.client("project/demo"), SimulatedEnvironment(1)
        flags = Flags(image="a:1", cities=("DFW",))
        earlier, stored = [
            to_dict(await client.create(compute.WORKLOADS, new_workload(name, flags), "default"))
            for name in ("earlier", "api")
        ]
        owner = {
            "apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "Workload",
            "name": "earlier",
            "uid": earlier["metadata"]["uid"],
        }
        recorded = new_entry(earlier["spec"], now=env.now(), changes="created", actor="ana")
        body = {
            "metadata": {"name": NAME, "ownerReferences": [owner]},
            "data": {"7": recorded._replace(rev=7).to_json()},
        }
        await client.create(CONFIG_MAPS, body, "default")
        history = ConfigMapHistory(client, env)

        assert await history.read(stored) == Revisions()
        mine = new_entry(stored["spec"], now=env.now(), changes="created", actor="ben")
        await history.record(stored, mine, before=None)

        found = (await history.read(stored)).entries
        assert [(each.rev, each.actor) for each in found] == [(1, "ben")]


def test_the_history_of_a_workload_created_elsewhere_begins_with_an_external_change() -> None:
    with cli_session() as here:
        workload = new_workload("api", Flags(image="a:1", cities=("DFW",)))
        here.act(here.client().create(compute.WORKLOADS, workload, "default"))

        assert here.run("rollout history api -o json").json == []
        assert here.run("rollout undo api --yes").code == 5
        assert here.run("scale api --min 2").code == 0

        recorded = [(each["changes"], each["actor"]) for each in history_of(here)]
        assert recorded == [
            ("external change", ""),
            ("min replicas (default) 1 → 2", "local-admin"),
        ]


def test_the_twenty_first_revision_drops_the_first() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a:1 --city=DFW --no-wait")
        for number in range(2, 22):
            assert here.run(f"deploy api --image=a:{number} --no-wait").code == 0

        found = history_of(here)
        assert [each["revision"] for each in found] == list(range(2, 22))
        assert found[0]["image"] == "a:2"
        stored = to_dict(here.act(here.client().get(CONFIG_MAPS, NAME, "default")))
        assert sorted(stored["data"], key=int) == [str(rev) for rev in range(2, 22)]
        gone = here.run("rollout undo api --to-revision 1 --yes")
        assert gone.code == 5
        assert 'revision #1 of "api" not found; recorded: #2, #3' in gone.err


def entry(number: int, text: str) -> Entry:
    spec = {"template": {"spec": {"runtime": {"text": text}}}, "placements": []}
    env = SimulatedEnvironment(1)
    return new_entry(
        spec,
        now=env.start,
        timestamp=f"2026-01-01T00:00:{number:02}Z",
        changes=f"change {number}",
        actor="me",
    )


def test_fewer_revisions_are_kept_when_they_are_large() -> None:
    revisions = Revisions()
    for number in range(1, 10):
        revisions = append_entries(revisions, [entry(number, "ü" * 100_000)])
        assert sum(each.size for each in revisions.entries) <= histories.MAX_BYTES

    assert [each.rev for each in revisions.entries] == [6, 7, 8, 9]


def test_a_revision_that_is_too_large_is_listed_without_its_spec() -> None:
    revisions = append_entries(Revisions(), [entry(1, "small"), entry(2, "x" * 1_000_000)])

    assert [(each.rev, each.spec is None) for each in revisions.entries] == [(1, False), (2, True)]


def test_a_change_is_recorded_once_however_often_it_is_repeated() -> None:
    one = append_entries(Revisions(), [entry(1, "a"), entry(1, "a"), None, entry(2, "b")])

    assert append_entries(one, [entry(1, "a"), entry(2, "b")]) == one
    assert [each.rev for each in one.entries] == [1, 2]


async def changed(client: Client, env: SimulatedEnvironment, who: str, times: int) -> None:
    """Change a workload several times, as a command does."""
    history = ConfigMapHistory(client, env)
    done = 0
    while done < times:
        live = to_dict(await client.get(compute.WORKLOADS, "api", "default"))
        await history.record(live, None, before=live)
        spec = json.loads(json.dumps(live["spec"]))
        container = spec["template"]["spec"]["runtime"]["sandbox"]["containers"][0]
        container["image"] = f"{who}:{done}"
        recorded = new_entry(spec, now=env.now(), changes=f"{who} {done}", actor=who)
        generation = live["metadata"]["generation"]
        patch = [
            {"op": "test", "path": "/metadata/generation", "value": generation},
            {"op": "replace", "path": "/spec", "value": spec},
            {"op": "add", "path": "/metadata/annotations", "value": change_annotation(recorded)},
        ]
        try:
            written = await client.patch(compute.WORKLOADS, "api", json_patch(patch), "default")
        except errors.Invalid:
            await asyncio.sleep(0.01)
            continue
        done += 1
        # The other writer may already have changed it again.
        await asyncio.sleep(env.random(who).choice([0, 0.02, 0.2]))
        await history.record(to_dict(written), recorded, before=live)


async def test_two_writers_at_once_lose_nothing_and_keep_the_order() -> None:
    async with embedded_server() as embedded:
        client, env = embedded.client("project/demo"), SimulatedEnvironment(3)
        first = new_workload("api", Flags(image="a:1", cities=("DFW",)))
        stored = to_dict(await client.create(compute.WORKLOADS, first, "default"))

        await asyncio.gather(*(changed(client, env, who, 9) for who in ("ana", "ben")))

        found = (await ConfigMapHistory(client, env).read(stored)).entries
        recorded = [each.changes for each in found]
        wanted = {f"{who} {i}" for who in ("ana", "ben") for i in range(9)}
        assert len(recorded) == len(set(recorded)), recorded
        assert set(recorded) == wanted | {"external change"}
        assert [each.rev for each in found] == list(range(1, 20))
        live = to_dict(await client.get(compute.WORKLOADS, "api", "default"))
        assert found[-1].spec == live["spec"]
        for who in ("ana", "ben"):
            assert [each for each in recorded if each.startswith(who)] == [
                f"{who} {i}" for i in range(9)
            ]


async def test_two_concurrent_first_writers_create_one_history() -> None:
    async with embedded_server() as embedded:
        client, env = embedded.client("project/demo"), SimulatedEnvironment(1)
        first = new_workload("api", Flags(image="a:1", cities=("DFW",)))
        stored = to_dict(await client.create(compute.WORKLOADS, first, "default"))
        recorded = [new_entry(stored["spec"], now=env.now(), changes=c, actor="me") for c in "xyz"]

        histories = [ConfigMapHistory(client, env) for _ in recorded]
        await asyncio.gather(
            *(h.record(stored, e, before=None) for h, e in zip(histories, recorded, strict=True))
        )

        found = (await histories[0].read(stored)).entries
        assert sorted(each.changes for each in found) == ["x", "y", "z"]


def test_a_change_whose_history_write_fails_is_recorded_by_the_next_change() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW")
        here.platform.server.add_user("ana", ("system:masters",), "anas")
        keeps_none = InterceptedSession(here, no_histories)

        result = keeps_none.run("deploy api --image=a/api:2 --message why --token anas")

        assert result.code == 0, result.err
        assert "Warning: the change was made but is not in the history yet" in result.err
        stored = to_dict(here.act(here.client().get(CONFIG_MAPS, NAME, "default")))
        assert list(stored["data"]) == ["1"]
        assert here.run("scale api --min 2").code == 0
        recorded = [(each["changes"], each["actor"]) for each in history_of(here)]
        assert recorded == [
            ("created", "local-admin"),
            ("image 1 → 2", "ana"),
            ("min replicas (default) 1 → 2", "local-admin"),
        ]
        assert history_of(here)[1]["message"] == "why"


@pytest.mark.parametrize("first", [True, False])
def test_a_change_that_is_not_recorded_yet_is_shown_as_the_revision_that_it_becomes(
    first: bool,
) -> None:
    with cli_session() as here:
        lines = ["deploy api --image=a/api:1 --city=DFW --no-wait", "scale api --min 2 --no-wait"]
        for line in lines[: 0 if first else 1]:
            assert here.run(line).code == 0
        interrupted = InterceptedSession(here, no_histories).run(lines[0 if first else 1])
        assert "is not in the history yet" in interrupted.err

        number = 1 if first else 2
        status, found = here.run("status api"), history_of(here)
        shown = here.run(f"rollout history api --revision {number}")

        assert f"revision #{number}, " in status.out
        assert " by local-admin" in status.out
        assert here.run("status api -o json").json["revision"] == number
        assert (found[-1]["revision"], found[-1]["active"]) == (number, True)
        assert shown.code == 0
        assert here.run("rollout history api").err == ""
        assert here.run("deploy api --image=a/api:2 --no-wait").code == 0
        assert history_of(here)[number - 1]["when"] == found[-1]["when"]


async def no_histories(request: HttpRequest, number: int) -> HttpResponse | None:
    if "/configmaps" not in request.path or request.method == "GET":
        return None
    body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not you"}
    return HttpResponse(403, {"content-type": "application/json"}, json.dumps(body).encode())


def test_data_that_is_no_history_entry_is_kept_and_not_listed() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW")
        patch = merge({"data": {"notes": "by hand", "9": "{", "8": '{"rev": 8}'}})
        here.act(here.client().patch(CONFIG_MAPS, NAME, patch, "default"))

        assert here.run("scale api --min 2").code == 0

        assert [each["revision"] for each in history_of(here)] == [1, 10]
        stored = to_dict(here.act(here.client().get(CONFIG_MAPS, NAME, "default")))
        assert stored["data"]["notes"] == "by hand"


def test_an_unrecorded_change_is_not_credited_after_an_external_one() -> None:
    """Ana's change is not recorded, and another client changes the workload before it is."""
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW,LHR")
        here.platform.server.add_user("ana", ("system:masters",), "anas")
        InterceptedSession(here, no_histories).run("deploy api --image=a/api:2 --token anas")
        edited(here, placements=[PLACEMENT])

        assert here.run("restart api").code == 0

        recorded = [(each["changes"], each["actor"]) for each in history_of(here)]
        assert recorded == [
            ("created", "local-admin"),
            ("external change: image 1 → 2, min replicas (default) 1 → 3", ""),
            ("restart", "local-admin"),
        ]


def test_an_undo_keeps_the_restart_annotation_of_the_live_spec() -> None:
    stored: dict[str, Any] = {
        "template": {"metadata": {"annotations": {RESTARTED: "2026-01-01T00:00:00Z"}}, "spec": {}},
        "placements": [1],
    }
    live: dict[str, Any] = {"template": {"spec": {"new": 1}}, "placements": [2], "later": "kept"}

    assert restore_spec(live, stored) == {
        "template": {"spec": {}},
        "placements": [1],
        "later": "kept",
    }
    assert restore_spec(stored, live)["template"]["metadata"] == stored["template"]["metadata"]


def test_status_does_not_show_the_revision_of_an_earlier_workload() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW")
        patch = merge({"metadata": {"ownerReferences": None}})
        here.act(here.client().patch(CONFIG_MAPS, NAME, patch, "default"))
        patch = merge({"metadata": {"annotations": {ANNOTATION_LAST_CHANGE: None}}})
        here.act(here.client().patch(compute.WORKLOADS, "api", patch, "default"))

        assert here.run("status api -o json").json["revision"] is None
        assert "created" in here.run("status api").out


def test_a_message_of_several_lines_is_one_line_for_people() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW --message 'why:\r\n\tone\n\ntwo'")

        table = here.run("rollout history api").out.splitlines()
        assert len(table) == 2
        assert "created (why: one two)" in table[1]
        assert "created (why: one two)\n" in here.run("rollout history api --revision 1").out
        (stored,) = here.run("rollout history api -o json").json
        assert stored["message"] == "why:\r\n\tone\n\ntwo"
