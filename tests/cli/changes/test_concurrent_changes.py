"""Two users change one workload at the same time, at every point of a command: both changes
are kept, and the history lists each once, in order."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.history.config_map import ConfigMapHistory
from datum_compute.cli.history.entries import change_annotation, new_entry
from datum_compute.cli.history.spec_patch import change_spec
from datum_compute.cli.session import to_dict
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.intercepted_session import InterceptedSession, Interception
from tests.support.cli.session import CliSession, cli_session

OURS = {
    "deploy": ("deploy {} --env=A=1 --no-wait", "env A"),
    "scale": ("scale {} --min 2 --no-wait", "min replicas (default) 1 → 2"),
    "restart": ("restart {} --no-wait", "restart"),
    "undo": ("rollout undo {} --to-revision 1 --yes --no-wait", "rollback to #1"),
}


async def bens_change(here: CliSession, name: str, *, records: bool) -> None:
    """A change as a command of Ben's makes it; it may end before it is recorded."""
    client = here.client()
    live = to_dict(await client.get(compute.WORKLOADS, name, "default"))
    spec = json.loads(json.dumps(live["spec"]))
    spec["template"]["metadata"] = {"labels": {"by": "ben"}}
    entry = new_entry(spec, now=here.env.now(), changes="label by", actor="ben")
    annotations = {**live["metadata"]["annotations"], **change_annotation(entry)}
    written = to_dict(await change_spec(client, live, spec, annotations=annotations))
    if records:
        await ConfigMapHistory(client, here.env).record(written, entry, before=live)


def ben_at(here: CliSession, name: str, at: int, *, records: bool) -> Interception:
    async def meanwhile(request: HttpRequest, number: int) -> HttpResponse | None:
        if number == at:
            await bens_change(here, name, records=records)
        return None

    return meanwhile


@pytest.mark.long
@pytest.mark.parametrize("records", [True, False], ids=["recorded", "not recorded"])
@pytest.mark.parametrize("command", sorted(OURS))
def test_a_concurrent_change_at_any_moment_is_kept_and_reported(
    command: str, records: bool
) -> None:
    line, recorded = OURS[command]
    with cli_session("DFW") as here:
        for at in range(1, 40):
            name = f"w{at}"
            assert here.run(f"deploy {name} --image=a:1 --city=DFW --no-wait").code == 0
            assert here.run(f"deploy {name} --image=a:2 --no-wait").code == 0

            between = InterceptedSession(here, ben_at(here, name, at, records=records))
            result = between.run(line.format(name))
            if len(between.requests) < at:
                break
            assert result.code == 0, result.err
            assert here.run(f"scale {name} --min 3 --no-wait").code == 0

            history = list(reversed(here.run(f"rollout history {name} -o json").json))
            happened = [(each["changes"], each["actor"]) for each in history]
            assert happened.count((recorded, "local-admin")) == 1, (at, happened)
            assert happened.count(("label by", "ben")) == 1, (at, happened)
            assert not any("external" in changes for changes, _ in happened), (at, happened)
            assert len(happened) == 5, (at, happened)
            for before, after in pairwise(history):
                changed = before["object"]["spec"] != after["object"]["spec"]
                assert changed, (at, "each entry is a change of its own")
            here.run(f"destroy {name} --yes")
        else:
            raise AssertionError("the command makes fewer requests")
        assert at > 5
