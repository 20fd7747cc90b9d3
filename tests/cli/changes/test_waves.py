"""A rollout in waves as those who deploy see it: how it ends, and how it is steered meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.rollout.waves import decide_waves
from datum_compute.cli.session import to_dict
from datum_compute.client.protocol import merge
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import CliSession, CommandResult, cli_session

CREATE = "deploy api --image=a:1 --city=DFW,LHR --waves=each"


def deploy_failing(here: CliSession) -> CommandResult:
    """A template whose instances never start, with the policy that is there."""
    body = manifest("api", fail="ImageUnavailable")
    body["spec"]["placements"][0]["cityCodes"] = ["DFW", "LHR"]
    body["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = 1
    return here.run("deploy -f -", stdin=json.dumps(body))


def deploy_while(
    here: CliSession, line: str, *steps: Callable[[], Awaitable[Any]], after: float = 20
) -> CommandResult:
    """Run a command, and another shell's steps that many seconds after its start and each other."""

    async def other() -> None:
        for step in steps:
            await asyncio.sleep(after)
            await step()

    task = here.loop.create_task(other())
    result = here.run(line)
    here.loop.run_until_complete(task)
    return result


async def annotate(here: CliSession, **notes: str | None) -> None:
    """As the commands do; ``HASH`` stands for the template's."""
    client = here.client()
    live = to_dict(await client.get(compute.WORKLOADS, "api", "default"))
    waves = decide_waves(live, [])
    assert waves is not None
    body = {
        f"compute.datumapis.com/rollout-{key}": value and value.replace("HASH", waves.hash)
        for key, value in notes.items()
    }
    patch = merge({"metadata": {"annotations": body}})
    await client.patch(compute.WORKLOADS, "api", patch, "default")


def images(here: CliSession) -> dict[str, str]:
    """What runs in each city."""
    return {
        each["city"]: each["object"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"]
        for each in here.run("instances -o json").json
    }


def test_a_failed_wave_that_is_undone_by_itself_ends_the_deploy_with_3() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --on-failure=undo").code == 0

        failed = deploy_failing(here)

        assert failed.code == 3, failed.transcript
        assert 'Error: rollout of "api" failed: rolled back: template ' in failed.err
        assert "the last good template is back in DFW" in failed.err
        here.wait(30)
        assert images(here) == {"DFW": "a:1", "LHR": "a:1"}
        assert here.run("rollout history api --limit 1 -o json").json[0]["outcome"] == "rolled back"
        assert "Available — rollout rolled back" in here.run("status api").out


def test_after_a_rollback_a_workload_is_scaled_stopped_and_started_like_any_other() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --on-failure=undo").code == 0
        assert deploy_failing(here).code == 3
        here.wait(30)

        scaled = here.run("scale api --min 2")
        again = here.run("scale api --min 2")
        stopped = here.run("stop api")
        started = here.run("start api")

        assert [each.code for each in (scaled, again, stopped, started)] == [0] * 4
        for each in (scaled, started):
            assert "The newest template does not run everywhere: rolled back: " in each.err
        assert '"api" now runs 2 instances per city' in scaled.err
        found = here.run("instances -o json").json
        assert [(each["city"], each["status"]) for each in found] == [
            (city, "Available") for city in ("DFW", "DFW", "LHR", "LHR")
        ]
        assert images(here) == {"DFW": "a:1", "LHR": "a:1"}
        assert here.run("rollout status api").code == 3


def rolled_back(here: CliSession) -> None:
    """Revision 2 was aborted, and each city runs a:1."""
    assert here.run(f"{CREATE} --soak=10m").code == 0
    assert here.run("deploy api --image=a:2 --no-wait").code == 0
    here.wait(20)
    assert here.run("rollout abort api").code == 0
    here.wait(30)


def test_after_an_abort_a_city_is_restarted_with_the_template_it_has() -> None:
    with cli_session("DFW", "LHR") as here:
        rolled_back(here)
        assert here.run("scale api --min 2").code == 0
        before = {each["name"]: each["created"] for each in here.run("instances -o json").json}
        here.wait(5)

        restarted = here.run("restart api --city LHR")

        assert restarted.code == 0, restarted.transcript
        assert "The newest template does not run everywhere: rolled back: " in restarted.err
        assert '"api" was restarted, revision #4.' in restarted.err
        found = here.run("instances -o json").json
        assert [each["status"] for each in found] == ["Available"] * 4
        assert {each["city"]: before[each["name"]] < each["created"] for each in found} == {
            "DFW": False,
            "LHR": True,
        }
        assert images(here) == {"DFW": "a:1", "LHR": "a:1"}


def test_after_an_abort_an_undo_of_the_scale_alone_ends_with_what_it_changed() -> None:
    with cli_session("DFW", "LHR") as here:
        rolled_back(here)
        assert here.run("scale api --min 2").code == 0

        undone = here.run("rollout undo api --yes")
        again = here.run("rollout undo api --yes --to-revision 4")

        assert (undone.code, again.code) == (0, 0), undone.transcript
        assert "The newest template does not run everywhere: rolled back: " in undone.err
        assert '"api" was rolled back to revision #2, as revision #4.' in undone.err
        assert len(here.run("instances -o json").json) == 2
        assert here.run("rollout status api").code == 3


def test_an_undo_of_the_scale_alone_opens_no_wave() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=10m").code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(20)
        assert here.run("rollout pause api").code == 0
        assert here.run("scale api --min 2").code == 0

        assert here.run("rollout undo api --yes").code == 0
        assert here.run("rollout resume api").code == 0
        here.wait(60)

        assert images(here) == {"DFW": "a:2", "LHR": "a:1"}


def test_a_paused_rollout_holds_back_no_scaling() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=10m").code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(20)
        assert here.run("rollout pause api").code == 0
        here.wait(5)

        scaled = here.run("scale api --min 2 --timeout=2m")

        assert scaled.code == 0, scaled.transcript
        assert "does not run everywhere: paused: " in scaled.err
        assert len(here.run("instances -o json").json) == 4
        assert images(here) == {"DFW": "a:2", "LHR": "a:1"}


def test_an_abort_says_that_it_ends_a_pause() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=10m").code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(20)
        assert here.run("rollout pause api").code == 0

        aborted = here.run("rollout abort api")

        assert aborted.err == (
            'The rollout of "api" is undone: DFW back to what ran there before.'
            " The rollout is not paused any more.\n"
        )
        here.wait(30)
        assert images(here) == {"DFW": "a:1", "LHR": "a:1"}


def test_after_a_failed_wave_the_next_opens_only_by_hand() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(CREATE).code == 0

        assert deploy_failing(here).code == 3
        here.wait(60)

        assert images(here)["LHR"] == "a:1"
        status = here.run("rollout status api --no-wait").out
        assert "Failed" in status
        assert "Waiting    wave 1 has failed" in status
        assert here.run("rollout promote api").err == "Wave 2 of 2 opens: LHR.\n"
        here.wait(5)
        assert images(here)["LHR"] != "a:1"


def test_an_abort_from_another_shell_ends_the_deploy_with_3() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=10m").code == 0

        result = deploy_while(
            here, "deploy api --image=a:2", lambda: annotate(here, aborted="HASH")
        )

        assert result.code == 3, result.transcript
        assert "failed: rolled back: " in result.err
        assert "aborted by a user" in result.err
        here.wait(5)
        assert images(here) == {"DFW": "a:1", "LHR": "a:1"}


def test_a_change_from_another_shell_ends_the_deploy_with_8_in_any_wave() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=10m").code == 0
        spec = {"template": {"metadata": {"labels": {"other": "shell"}}}}
        patch = merge({"spec": spec})

        result = deploy_while(
            here,
            "deploy api --image=a:2",
            lambda: here.client().patch(compute.WORKLOADS, "api", patch, "default"),
            after=700,
        )

        assert result.code == 8, result.transcript
        assert "was superseded by revision #3" in result.err


def test_a_paused_rollout_goes_on_when_another_shell_resumes_it() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=10s").code == 0

        result = deploy_while(
            here,
            "deploy api --image=a:2",
            lambda: annotate(here, paused="ana, now"),
            lambda: annotate(here, paused=None),
            after=5,
        )

        assert result.code == 0, result.transcript
        assert "Waiting    paused (ana, now)" in result.err
        assert images(here) == {"DFW": "a:2", "LHR": "a:2"}


def test_a_wait_without_a_timeout_covers_every_wave_with_its_soak() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=20m").code == 0

        complete = here.run("deploy api --image=a:2")
        short = here.run("deploy api --image=a:3 --timeout=15m")

        assert (complete.code, short.code) == (0, 4), complete.transcript
        assert "Rollout complete in 40m" in complete.err
        assert "; wave 1 of 2: DFW healthy since " in short.err


@pytest.mark.parametrize(("waves", "at_once"), [("", True), (" --waves=LHR,DFW", False)])
def test_an_undo_reaches_all_cities_at_once_unless_waves_are_given(
    waves: str, at_once: bool
) -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=5m").code == 0
        assert here.run("deploy api --image=a:2").code == 0

        undone = here.run(f"rollout undo api --yes --no-wait{waves}")
        here.wait(60)

        assert undone.code == 0, undone.transcript
        assert images(here) == {"DFW": "a:1" if at_once else "a:2", "LHR": "a:1"}
        assert ("wave 2   DFW   1 instance" in undone.err) is not at_once


def test_a_city_that_does_not_answer_is_skipped_and_follows() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE}").code == 0
        here.platform.partitions.disconnect("dfw")
        here.wait(120)
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(10)
        assert images(here)["LHR"] == "a:1"

        assert here.run("rollout skip api nowhere").code == 5
        assert here.run("rollout skip api dfw").code == 0
        assert here.run("rollout status api --timeout 1m").code == 0
        assert images(here) == {"DFW": "a:1", "LHR": "a:2"}

        here.platform.partitions.connect("dfw")
        here.wait(180)
        assert images(here) == {"DFW": "a:2", "LHR": "a:2"}


def test_a_fix_is_rolled_out_although_later_waves_still_run_what_fails() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(CREATE).code == 0
        assert deploy_failing(here).code == 3
        assert here.run("rollout promote api").code == 0
        here.wait(60)
        assert here.run("rollout status api --no-wait").out.count("image unavailable") == 2

        fixed = manifest("api")
        fixed["spec"]["placements"][0] |= {"cityCodes": ["DFW", "LHR"]}
        result = here.run("deploy -f -", stdin=json.dumps(fixed))

        assert result.code == 0, result.transcript


def test_a_gate_opens_the_next_wave_when_its_condition_is_true() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --gate=SmokeTestsPassed").code == 0

        async def pass_tests() -> None:
            live = await here.client().get(compute.WORKLOADS, "api", "default")
            condition = {
                "type": "SmokeTestsPassed",
                "status": "True",
                "reason": "Passed",
                "message": "",
                "observedGeneration": live.metadata.generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            conditions = [*to_dict(live)["status"]["conditions"], condition]
            patch = merge({"status": {"conditions": conditions}})
            client = here.client()
            await client.patch(compute.WORKLOADS, "api", patch, "default", subresource="status")

        result = deploy_while(here, "deploy api --image=a:2", pass_tests)

        assert result.code == 0, result.transcript
        assert "Waiting    until SmokeTestsPassed is True" in result.err


@pytest.mark.parametrize("verb", ["pause", "resume", "promote", "abort", "skip"])
def test_a_workload_without_waves_cannot_be_steered(verb: str) -> None:
    with cli_session("DFW") as here:
        assert here.run("deploy api --image=a:1 --city=DFW").code == 0

        result = here.run(f"rollout {verb} api{' DFW' if verb == 'skip' else ''}")

        assert result.code == 1
        assert 'workload "api" has no waves: its cities are updated all at once' in result.err
        assert "Try:  datumctl-compute deploy api --waves=each" in result.err


def test_a_policy_that_the_server_refuses_is_named_before_anything_is_written() -> None:
    with cli_session("DFW") as here:
        result = here.run("deploy api --image=a:1 --city=DFW --gate=Available")

        assert result.code != 0
        assert "must not be a condition that the platform writes" in result.err
        assert here.run("status api").code == 5


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--city=DFW,LHR --waves=DWF,LHR", '--waves "DWF,LHR": DWF is in no placement'),
        ("--city=DFW --waves=LHR+IAD,*", '--waves "LHR+IAD,*": LHR, IAD are in no placement'),
    ],
)
def test_waves_name_cities_of_the_workload(flags: str, message: str) -> None:
    with cli_session("DFW", "IAD", "LHR") as here:
        refused = here.run(f"deploy api --image=a:1 {flags}")

        assert refused.code == 2
        assert f"Error: {message} of this workload; choose from DFW" in refused.err
        assert here.run("status api").code == 5


def test_waves_may_name_a_city_that_the_same_command_adds() -> None:
    with cli_session("DFW", "IAD", "LHR") as here:
        here.run("deploy api --image=a:1 --city=DFW")

        assert here.run("deploy api --add-city=lhr --waves=lhr,* --window=0s").code == 0
        assert here.run("deploy api --remove-city=LHR --waves=LHR,DFW --yes").code == 2
        assert here.run("rollout undo api --waves=IAD,DFW --yes").code == 2


def test_what_is_updated_already_is_not_skipped() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=1m").code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(30)
        soaking = here.run("rollout skip api DFW")
        here.wait(60)
        done = here.run("rollout skip api DFW -o json")

        assert (soaking.code, done.code) == (0, 0)
        assert soaking.err == (
            "DFW is updated already; the next wave opens after its soak, or now with"
            "  datumctl-compute rollout promote api\n"
        )
        assert done.err == "DFW is updated already.\n"
        assert done.json["action"] == "unchanged"
        assert here.run("rollout status api").code == 0
        assert images(here) == {"DFW": "a:2", "LHR": "a:2"}


def test_the_last_city_of_a_rollout_is_not_skipped() -> None:
    with cli_session("DFW", "IAD", "LHR") as here:
        create = "deploy api --image=a:1 --city=DFW,IAD,LHR --waves=each --gate=Verified"
        assert here.run(create).code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(60)
        assert here.run("rollout skip api LHR").code == 0
        last = here.run("rollout skip api IAD")
        here.wait(60)

        assert last.code == 1
        assert 'IAD is the last city of the rollout of "api": no other is left' in last.err
        assert "Try:  datumctl-compute rollout promote api" in last.err
        assert images(here) == {"DFW": "a:2", "IAD": "a:1", "LHR": "a:1"}


def test_an_abort_names_only_cities_that_had_the_template() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=10m").code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        assert here.run("rollout skip api LHR").code == 0
        here.wait(20)

        aborted = here.run("rollout abort api")
        here.wait(20)

        assert aborted.err == 'The rollout of "api" is undone: DFW back to what ran there before.\n'
        status = here.run("status api").out
        assert "the last good template is back in DFW\n" in status
        assert "skipped" in status
        assert images(here) == {"DFW": "a:1", "LHR": "a:1"}


def outcomes(here: CliSession) -> list[tuple[int, str | None]]:
    """What the history says of each revision, the oldest first."""
    found = here.run("rollout history api -o json").json
    return [(each["revision"], each["outcome"]) for each in reversed(found)]


def test_the_history_keeps_what_became_of_each_revision() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run("deploy api --image=a:1 --city=DFW,LHR").code == 0
        assert here.run("deploy api --waves=each --soak=1m").code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(20)
        assert here.run("rollout abort api").code == 0
        here.wait(20)
        known = [(1, None), (2, "complete"), (3, "rolled back")]
        assert outcomes(here) == known
        assert here.run("scale api --min 2").code == 0
        assert outcomes(here) == [*known, (4, None)], "the scale was not rolled back"

        assert here.run("rollout undo api --to-revision 2 --yes").code == 0
        known += [(4, None), (5, "complete")]
        assert outcomes(here) == known
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(20)
        assert outcomes(here) == [*known, (6, "soaking")]
        assert here.run("deploy api --image=a:3").code == 0
        known += [(6, "superseded"), (7, "complete")]
        assert outcomes(here) == known
        assert here.run("deploy api --waves=none").code == 0
        assert here.run("deploy api --image=a:1").code == 0
        assert outcomes(here) == [*known, (8, None), (9, None)]


def test_the_history_does_not_guess_what_a_change_of_another_client_ended() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run(f"{CREATE} --soak=1m").code == 0
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(20)
        assert here.run("rollout abort api").code == 0
        here.wait(20)

        patch = merge({"spec": {"template": {"metadata": {"labels": {"other": "shell"}}}}})
        here.act(here.client().patch(compute.WORKLOADS, "api", patch, "default"))
        here.wait(180)
        assert outcomes(here) == [(1, "complete"), (2, None)]
        assert here.run("deploy api --image=a:3").code == 0

        assert outcomes(here) == [(1, "complete"), (2, None), (3, "complete"), (4, "complete")]


def test_a_template_that_was_aborted_may_be_deployed_again_later() -> None:
    with cli_session("DFW", "LHR") as here:
        rolled_back(here)
        assert here.run("rollout undo api --yes").code == 0

        again = here.run("deploy api --image=a:2 --soak=1s")
        back = here.run("deploy api --image=a:1 --soak=10m --no-wait")
        here.wait(60)

        assert (again.code, back.code) == (0, 0), again.transcript
        assert images(here) == {"DFW": "a:1", "LHR": "a:2"}, "the undo opened all waves of a:1 once"


def test_a_rollout_that_waits_for_its_gate_says_how_it_goes_on() -> None:
    promote = "datumctl-compute rollout promote api"
    with cli_session("DFW", "LHR") as here:
        created = here.run(f"{CREATE} --gate=Verifeid")
        changed = here.run("deploy api --gate=Verified")
        deployed = here.run("deploy api --image=a:2 --timeout=5m")

        for plan, gate in ((created, "Verifeid"), (changed, "Verified"), (deployed, "Verified")):
            assert f"waits for condition {gate} of the workload, which something else" in plan.err
        assert deployed.code == 4
        waits = "wave 2 of 2 (LHR) has waited since 2026-01-01T00:"
        assert f"is not ready after 5m; {waits}" in deployed.err
        assert f"2 or later. Go on with  {promote}\n" in deployed.err
        assert f"Try:  {promote}" in deployed.err
        why = here.run("why api").out
        assert "Who can act   you\n" in why
        assert waits in why
        assert f"Next          {promote}" in why
        for line in ("status api", "rollout status api --no-wait"):
            assert f"Try:  {promote}" in here.run(line).err
        assert "Available — rollout waiting for its gate" in here.run("status api").out


def test_status_says_what_runs_where_an_image_was_undone() -> None:
    with cli_session("DFW", "LHR") as here:
        assert "IMAGE" not in here.run(f"{CREATE} --soak=10m").out
        assert here.run("deploy api --image=a:2 --no-wait").code == 0
        here.wait(20)
        assert here.run("rollout abort api").code == 0
        here.wait(20)

        status = here.run("status api")
        wide = here.run("instances -o wide").out

        assert [line.split()[6:8] for line in status.out.splitlines()[-2:]] == [
            ["a:1", "undone"],
            ["a:1", "waiting:"],
        ]
        assert "Try:  datumctl-compute deploy api --image=IMAGE" in status.err
        assert [line.split()[-1] for line in wide.splitlines()[:3]] == ["IMAGE", "a:1", "a:1"]
        found = here.run("status api -o json").json
        assert [each["image"] for each in found["placements"]] == ["a:1", "a:1"]
        assert here.run("rollout undo api --yes").code == 0
        assert "IMAGE" not in here.run("status api").out
