"""Commands that meet the same problem suggest the same next step."""

from __future__ import annotations

import json

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import CliSession, cli_session


def first_hint(text: str, title: str) -> str:
    return text.partition(title)[2].splitlines()[0].strip()


def fail_with(here: CliSession, reason: str) -> str:
    """The error of a deploy whose instances fail for ``reason``."""
    return here.run("deploy -f -", stdin=json.dumps(manifest("api", fail=reason))).err


@pytest.mark.parametrize("reason", ["ImageUnavailable", "InstanceCrashing", "ConfigurationError"])
def test_a_failed_deploy_and_why_suggest_the_same_command(reason: str) -> None:
    with cli_session() as here:
        error = fail_with(here, reason)

        explained = here.run("why api").out

        assert first_hint(error, "Try:") == first_hint(explained, "Next")


DATA = {
    "a key of a Secret": ("secrets set keys other=1", "--env-secret=TOKEN=keys:token"),
    "a key of a ConfigMap": ("config set keys other=1", "--env-config=TOKEN=keys:token"),
    "a Secret": ("", "--env-secret=TOKEN=keys:token"),
    "a ConfigMap": ("", "--mount=config/keys:/etc/keys"),
    "the credential of a registry": ("", "--pull-secret=keys"),
}


@pytest.mark.parametrize(("prepared", "flag"), DATA.values(), ids=list(DATA))
def test_missing_data_is_created_by_the_same_command_on_every_screen(
    prepared: str, flag: str
) -> None:
    """A deploy that fails, ``why``, ``status`` and the descriptions."""
    with cli_session() as here:
        assert not prepared or here.run(prepared).code == 0
        error = here.run(f"deploy api --image=a/api:1 --city=DFW {flag} --timeout 60s").err
        here.wait(30)

        explained = first_hint(here.run("why api").out, "Next")

        assert " set keys " in explained
        assert first_hint(error, "\nTry:") == explained
        for screen in ("status api", "workloads describe api"):
            assert first_hint(here.run(screen).err, "Try:") == explained, screen
        for screen in ("why", "instances describe"):
            shown = here.run(f"{screen} api-default-dfw-0")
            assert first_hint(shown.out + shown.err, "Next" if screen == "why" else "Try:") == (
                explained
            )


def test_why_explains_a_deletion_that_waits_for_a_cell_as_status_does() -> None:
    """And suggests what ``destroy`` suggests."""
    with cli_session() as here:
        assert here.run("deploy api --image=a/api:1 --city=DFW,LHR --window=0s").code == 0
        here.platform.partitions.disconnect("lhr")
        here.wait(120)
        error = here.run("destroy api --yes --timeout 20s").err

        explained = here.run("why api").out

        (said,) = json.loads(here.run("status api -o json").out)["placements"]
        assert said["reason"] == "RemovingFromHub"
        assert said["message"] in explained
        assert "the rest is deleted when the cell responds" in explained
        assert first_hint(explained, "Next") == first_hint(error, "Try:")


@pytest.mark.parametrize("fail", [None, "ImageUnavailable"])
def test_every_screen_of_an_instance_says_that_its_cell_does_not_answer(fail: str | None) -> None:
    body = manifest("api", **({"fail": fail} if fail else {}))
    with cli_session() as here:
        here.run("deploy -f - --timeout 20s", stdin=json.dumps(body))
        here.platform.partitions.disconnect("dfw")
        here.wait(600)

        explained = here.run("why api-default-dfw-0").out

        assert "last report over 9m ago" in here.run("instances").out
        assert "No answer from the cell for over 9m" in (
            here.run("instances describe api-default-dfw-0").out
        )
        assert "last report over 9m ago" in explained
        assert (fail or "No answer from cell dfw since") in explained


def test_a_workload_without_a_url_names_where_its_addresses_are() -> None:
    with cli_session() as here:
        assert here.run("deploy api --image=a/api:1 --city=DFW --http-port=80 --no-wait").code == 0

        refused = here.run("open api").err

        assert "the platform has not given workload" in refused
        assert refused.splitlines()[1:] == [
            "Try:  datumctl-compute status api",
            "      datumctl-compute instances --workload api",
        ]


@pytest.mark.parametrize(
    "screen", ["workloads describe api", "instances describe api-default-dfw-0", "why api"]
)
def test_events_of_a_destroyed_workload_of_the_same_name_are_not_shown(screen: str) -> None:
    with cli_session() as here:
        fail_with(here, "ImageUnavailable")
        assert "ImageUnavailable" in str(here.run(f"{screen} -o json").json["events"])
        assert here.run("destroy api --yes").code == 0
        here.wait(5)
        made = here.env.now().isoformat()[:19]
        fail_with(here, "InstanceCrashing")

        shown = here.run(f"{screen} -o json").json["events"]

        assert shown
        assert [each for each in shown if each["when"][:19] < made] == []


def test_a_deletion_that_a_finalizer_of_another_program_holds_is_explained_everywhere() -> None:
    held = "held by the finalizer example.com/backup"
    with cli_session() as here:
        assert here.run("deploy api --image=a/api:1 --city=DFW --window=0s").code == 0
        found = here.act(here.client().get(compute.WORKLOADS, "api", "default"))
        body = merge(
            {"metadata": {"finalizers": [*found.metadata.finalizers, "example.com/backup"]}}
        )
        here.act(here.client().patch(compute.WORKLOADS, "api", body, "default"))

        destroyed = here.run("destroy api --yes --timeout 30s")

        assert destroyed.code == 4
        assert f'"api" is {held}.\n' in destroyed.err
        assert f'Error: "api" is not deleted yet: {held}\nTry:  datumctl-compute why api' in (
            destroyed.err
        )
        assert f"Health     Destroying — {held}" in here.run("status api").out
        assert f"Destroying ({held})" in here.run("workloads").out
        explained = here.run("why api").out.splitlines()
        assert [line.strip() for line in explained[1:-1]] == [
            "SomeFinalizersRemain for 30s",
            held,
            "Who can act   you",
            "The program that set the finalizer removes it; where that is gone, remove it with"
            " kubectl.",
        ]
        assert explained[-1].startswith("Events")
