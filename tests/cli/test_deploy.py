"""``deploy``: its checks, its prompts, and what is stored when it is refused."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.assembly.local.state import LocalSettings, StateDirectory
from datum_compute.cli.commands.deploy.files import clean
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import changed_workload, new_workload
from datum_compute.cli.context import Streams
from datum_compute.cli.errors import CommandError
from datum_compute.cli.main import main
from datum_compute.cli.session import to_dict
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.error_screens import WHOLE
from tests.support.cli.intercepted_session import InterceptedSession
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import CliSession, SessionReach, cli_session
from tests.support.cli.terminal import Terminal

DEPLOY = "deploy api --image=a/api:1 --city=DFW"


class Person(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(here: CliSession, line: str, typed: str) -> tuple[int, str]:
    err = Terminal()
    streams = Streams(Person(typed), io.StringIO(), err)
    code = main(shlex.split(line), here.env, streams, reach=SessionReach(here))
    return code, "\n".join(err.screen)


def workload(here: CliSession, name: str = "api") -> dict[str, Any] | None:
    try:
        return to_dict(here.act(here.client().get(compute.WORKLOADS, name, "default")))
    except errors.NotFound:
        return None


def networks(here: CliSession) -> list[str]:
    page = here.act(here.client().list(networking.NETWORKS, "default"))
    return [each.name for each in page.items]


def test_a_network_is_created_only_after_confirmation() -> None:
    line = f"{DEPLOY} --network=private --no-wait"
    with cli_session("DFW") as here:
        for typed in ("n\n", "\n", ""):
            code, shown = at_a_terminal(here, line, typed)
            assert code == 9
            assert 'Network "private" does not exist in project demo. Create it? [y/N]' in shown
            assert networks(here) == ["default"]
            assert workload(here) is None

        code, _ = at_a_terminal(here, line, "y\n")
        assert code == 0
        assert networks(here) == ["default", "private"]
        assert workload(here) is not None


def test_a_dry_run_writes_nothing_at_all() -> None:
    with cli_session("DFW") as here:
        seen = InterceptedSession(here, _pass_on)
        assert seen.run(f"{DEPLOY} --network=private --dry-run").code == 0
        assert seen.run(f"{DEPLOY} --dry-run --exit-code").code == 1

        writes = [each for each in seen.requests if each.method != "GET"]
        assert all(("dryRun", "All") in each.query for each in writes), writes
        assert workload(here) is None
        assert networks(here) == ["default"]


async def _pass_on(request: HttpRequest, number: int) -> HttpResponse | None:
    return None


def test_exit_codes_of_a_dry_run_distinguish_changes_from_errors() -> None:
    with cli_session("DFW") as here:
        assert here.run(f"{DEPLOY} --dry-run --exit-code").code == 1
        assert here.run(DEPLOY).code == 0
        assert here.run(f"{DEPLOY} --dry-run --exit-code").code == 0
        assert here.run("deploy api --image=a/api:2 --dry-run --exit-code").code == 1
        assert here.run("deploy api --image=a/api:2 --dry-run").code == 0

        async def broken(request: HttpRequest, number: int) -> HttpResponse | None:
            raise errors.Disconnected("the line broke")

        failing = InterceptedSession(here, broken)
        assert failing.run("deploy api --image=a/api:2 --dry-run").code == 1
        assert failing.run("deploy api --image=a/api:2 --dry-run --exit-code").code == 2

        async def refusing(request: HttpRequest, number: int) -> HttpResponse | None:
            raise PermissionError(13, "Permission denied", "/certificate")

        unread = InterceptedSession(here, refusing)
        assert unread.run("deploy api --image=a/api:2 --dry-run").code == 1
        assert unread.run("deploy api --image=a/api:2 --dry-run --exit-code").code == 2
        elsewhere = here.run("deploy api --city=NYC --dry-run --exit-code")
        assert elsewhere.code == 7, "an error that has a code of its own keeps it"


def test_several_files_are_deployed_in_order_like_one(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        (tmp_path / f"{name}.yaml").write_text(json.dumps(manifest(name)))
    both = f"-f {tmp_path}/first.yaml -f {tmp_path}/second.yaml"
    with cli_session("DFW", "LHR") as here:
        done = here.run(f"deploy {both} -f - -o name", stdin=json.dumps(manifest("piped")))
        assert done.code == 0
        assert done.out.split() == ["workload/first", "workload/second", "workload/piped"]

        twice = here.run(f"deploy {both} -f {tmp_path}/first.yaml -f {tmp_path}/third.yaml")
        assert twice.code == 2
        assert 'workload "first" is defined more than once' in twice.err

        absent = here.run(f"deploy -f {tmp_path}/third.yaml -f {tmp_path}/absent.yaml")
        assert absent.code == 2
        assert "absent.yaml: No such file or directory" in absent.err
        assert workload(here, "third") is None


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("name: web", "name: 123", "metadata.name: expected a string, found 123; quote it"),
        (
            "name: web",
            "name: web, labels: {a: 1}",
            "metadata.labels[a]: expected a string, found 1; quote it",
        ),
        (
            "name: web",
            "name: web, annotations: {b: {}}",
            "metadata.annotations[b]: expected a string, found an object\n",
        ),
        (
            "[DFW]",
            "[DFW, NO]",
            "spec.placements[0].cityCodes[1]: expected a string, found false; quote it",
        ),
        (
            "[DFW]",
            "[DFW], scaleSettings: {minReplicas: -1}",
            "spec.placements[0].scaleSettings.minReplicas: expected a number from 1 to 1000,"
            " found -1",
        ),
        (
            "[DFW]",
            "[DFW], scaleSettings: {minReplicas: 1001}",
            "spec.placements[0].scaleSettings.minReplicas: expected a number from 1 to 1000,"
            " found 1001",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_what_was_found(
    before: str, after: str, message: str
) -> None:
    with cli_session("DFW") as here:
        refused = here.run("deploy -f -", stdin=WHOLE.replace(before, after))

        assert refused.code == 2
        assert f"Error: -f -: document 1: {message}" in refused.err


def test_a_file_that_is_refused_after_the_first_plan_says_that_nothing_was_changed() -> None:
    first, second = manifest("first"), manifest("second")
    second["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = 0
    with cli_session("DFW", "LHR") as here:
        refused = here.run("deploy -f -", stdin=f"{json.dumps(first)}\n---\n{json.dumps(second)}")

        assert refused.code == 2
        assert "No workload was created or changed.\nError: creating workload" in refused.err
        assert workload(here, "first") is None

        alone = here.run("deploy -f -", stdin=json.dumps(second))
        assert "No workload" not in alone.err


def test_a_manifest_that_the_server_refuses_is_usage_and_names_its_workload() -> None:
    first, second = manifest("first"), manifest("second")
    second["spec"]["placements"][0]["scaleSettings"] = {"minReplicas": "one"}
    with cli_session("DFW", "LHR") as here:
        refused = here.run("deploy -f -", stdin=f"{json.dumps(first)}\n---\n{json.dumps(second)}\n")

        assert refused.code == 2
        assert 'Error: creating workload "second": the server refused the request:' in refused.err
        assert "minReplicas" in refused.err
        assert workload(here, "first") is None


def test_sleep_without_a_port_is_usage_and_names_the_flags() -> None:
    with cli_session("DFW") as here:
        refused = here.run(f"{DEPLOY} --sleep-after 5s")

        assert refused.code == 2
        assert "Error: --sleep-after 5s: a container needs a port" in refused.err
        assert "Try:  --http-port 8080\n      --port 8080\n" in refused.err
        for port in ("--port 8080", "--http-port 8080"):
            assert here.run(f"{DEPLOY} --sleep-after 5s {port} --dry-run").code == 0


def test_a_dry_run_says_so_to_programs() -> None:
    with cli_session("DFW") as here:
        planned = here.run(f"{DEPLOY} --dry-run -o json").json
        done = here.run(f"{DEPLOY} --no-wait -o json").json

        assert (planned["action"], planned["dryRun"]) == ("created", True)
        assert "dryRun" not in done


def test_the_plan_of_a_new_workload_has_its_labels_and_each_value_on_one_line() -> None:
    with cli_session("DFW") as here:
        long = "a\\n" * 100
        planned = here.run(
            f"{DEPLOY} --label=team=x --env='NL=line1\nline2' --env=EMPTY= --env='LONG={long}\n'"
            " --dry-run"
        )

        assert planned.code == 0, planned.err
        rows = {line.split("   ")[0].strip(): line for line in planned.err.splitlines()}
        assert rows["label team"].endswith("   x")
        assert rows["env NL"].endswith('   "line1\\nline2"')
        assert rows["env EMPTY"].endswith('   ""')
        assert re.search(r'   "(a\\\\n)+a?…" \(\d+ characters\)$', rows["env LONG"]), rows[
            "env LONG"
        ]


def test_quota_that_does_not_suffice_is_not_said_to_be_used() -> None:
    both = "\n---\n".join(json.dumps(manifest(name)) for name in ("first", "second"))
    with cli_session("DFW", "LHR", grant={"instances": 5, "memory": 2048}) as here:
        short = here.run(f"{DEPLOY} --min 6 --dry-run")
        planned = here.run("deploy -f - --dry-run", stdin=both)

        assert re.search(r"quota +needs 6 instances, 5 left\n", short.err), short.err
        assert "more GiB of memory, but the quota has " in short.err
        assert re.findall(r"  quota +(.+)", planned.err) == [
            "uses 4 of the 5 instances left",
            "needs 4 instances, 1 left",
        ], planned.err


def test_a_saved_manifest_has_no_server_fields_and_deploys_the_same_spec(tmp_path: Path) -> None:
    file = tmp_path / "saved.yaml"
    with cli_session("DFW") as here:
        result = here.run(f"{DEPLOY} --label=team=web --env=A=1 --port=8080 --save {file}")
        assert result.code == 0

        saved = yaml.safe_load(file.read_text())
        assert set(saved) == {"apiVersion", "kind", "metadata", "spec"}
        assert saved["metadata"] == {"name": "api", "labels": {"team": "web"}}
        again = here.run(f"deploy -f {file}")
        assert again.code == 0
        assert "nothing to change" in again.err
        here.run("destroy api --yes")
        assert here.run(f"deploy -f {file} --dry-run --save {tmp_path / 'again.yaml'}").code == 0
        assert yaml.safe_load((tmp_path / "again.yaml").read_text())["spec"] == saved["spec"]
        assert here.run(f"deploy -f {file} --save {tmp_path}/no/such.yaml --no-wait").code == 2


def test_a_file_that_cannot_be_saved_is_said_before_anything_is_changed(tmp_path: Path) -> None:
    kept = tmp_path / "kept.yaml"
    kept.write_text("before")
    with cli_session() as here:
        for path, reason in ((f"{tmp_path}/no/such.yaml", "No such file"), (tmp_path, "Is a dir")):
            result = here.run(f"deploy api --image=a:1 --city=DFW --save {path}")
            assert result.code == 2
            assert f"--save {path}: {reason}" in result.err
            assert here.run("status api").code == 5
        assert here.run(f"deploy api --city=DFW --save {kept}").code == 2
        assert here.run(f"deploy api --city=DFW --save {tmp_path}/new.yaml").code == 2
    assert kept.read_text() == "before"
    assert list(tmp_path.iterdir()) == [kept]


def test_a_manifest_from_the_server_is_deployed_without_the_last_change_annotation() -> None:
    """The annotation is the CLI's own record and no part of a manifest."""
    with cli_session("DFW") as here:
        here.run(DEPLOY)
        live = workload(here)
        assert live is not None
        body = {key: live[key] for key in ("apiVersion", "kind", "spec")}
        annotations = live["metadata"]["annotations"]
        assert "compute.datumapis.com/last-change" in annotations
        body["metadata"] = {"name": "api", "annotations": annotations}
        here.run("deploy api --image=a/api:2")

        result = here.run("deploy -f - --dry-run", stdin=json.dumps(body))

        assert "last-change" not in result.err
        assert clean(live)["metadata"] == {"name": "api"}


def test_labels_of_a_file_are_merged_with_the_stored_labels() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(f"{DEPLOY} --label=team=web --label=tier=1 --no-wait")
        patch = merge({"metadata": {"annotations": {"theirs": "kept"}}})
        here.act(here.client().patch(compute.WORKLOADS, "api", patch, "default"))
        body = manifest("api")
        body["metadata"]["labels"] = {"tier": "2"}

        assert here.run("deploy -f - --no-wait", stdin=json.dumps(body)).code == 0

        found = workload(here)
        assert found is not None
        assert found["metadata"]["labels"] == {"team": "web", "tier": "2"}
        assert found["metadata"]["annotations"]["theirs"] == "kept"

        assert here.run("deploy api --label=team- --no-wait").code == 0
        found = workload(here)
        assert found is not None
        assert found["metadata"]["labels"] == {"tier": "2"}


def test_a_label_alone_replaces_no_instance() -> None:
    with cli_session("DFW") as here:
        here.run(DEPLOY)
        before = workload(here)
        result = here.run("deploy api --label=team=web")

        after = workload(here)
        assert before is not None
        assert after is not None
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert "replaced" not in result.err
        assert here.run("workloads -l team=web -o name").out == "workload/api\n"


def test_end_of_input_at_any_prompt_exits_9_and_writes_nothing() -> None:
    with cli_session("DFW", "LHR") as here:
        typed = ["api", "a/api:1", "", "DFW", "", "none", "y"]
        for end in range(len(typed)):
            code, _ = at_a_terminal(here, "deploy", "\n".join([*typed[:end], ""]))
            assert code == 9, end
            assert workload(here) is None
        code, shown = at_a_terminal(here, "deploy", "\n".join([*typed, ""]))
        assert code == 0, shown
        found = workload(here)
        assert found is not None
        assert found["spec"]["placements"][0]["cityCodes"] == ["DFW"]


def container(flags: Flags, **before: Any) -> dict[str, Any]:
    first = new_workload("api", Flags(image="a:1", cities=("DFW",)))
    first["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0].update(before)
    changed = changed_workload(first, flags)
    sandbox = changed["spec"]["template"]["spec"]["runtime"]["sandbox"]
    found: dict[str, Any] = sandbox["containers"][0]
    return found


HTTP = {"name": "http", "port": 8080, "protocol": "TCP"}
ADMIN = {"name": "port-9090", "port": 9090}


@pytest.mark.parametrize(
    ("flags", "ports"),
    [
        (("9090",), [HTTP, ADMIN]),
        (("http=80",), [{**HTTP, "port": 80}]),
        (("8080",), [HTTP]),
        (("http-",), []),
        (("8080-",), []),
        (("http-", "web=8080"), [{"name": "web", "port": 8080}]),
        ((), [HTTP]),
    ],
)
def test_ports_that_no_flag_mentions_stay(flags: tuple[str, ...], ports: list[Any]) -> None:
    assert container(Flags(ports=flags), ports=[HTTP])["ports"] == ports


def test_adding_a_taken_port_or_removing_a_missing_one_is_refused() -> None:
    with pytest.raises(CommandError, match='port 8080 is already named "http"'):
        container(Flags(ports=("web=8080",)), ports=[HTTP])
    with pytest.raises(CommandError, match=r"no such port; the workload has http \(8080\)$"):
        container(Flags(ports=("web-",)), ports=[HTTP])
    with pytest.raises(CommandError, match=r"no such port; the workload has none$"):
        container(Flags(ports=("web-",)), ports=[])


def test_a_dash_removes_command_or_arguments() -> None:
    before = {"command": ["/bin/app"], "args": ["serve"]}

    assert container(Flags(command=("-",)), **before).get("command") is None
    assert container(Flags(args=("-",)), **before).get("args") is None
    assert container(Flags(args=("-", "x")), **before)["args"] == ["-", "x"]
    assert container(Flags(image="b:1"), **before)["command"] == ["/bin/app"]


def test_status_shows_a_change_made_outside_the_cli() -> None:
    with cli_session("DFW") as here:
        here.run(DEPLOY)
        assert here.run("status api -o json").json["revision"] == 1
        placement = {
            "name": "default",
            "cityCodes": ["DFW"],
            "scaleSettings": {"minReplicas": 2},
        }
        patch = merge({"spec": {"placements": [placement]}})
        here.act(here.client().patch(compute.WORKLOADS, "api", patch, "default"))

        assert "external change since revision #1" in here.run("status api").out
        assert here.run("status api -o json").json["revision"] is None


def test_after_a_restart_the_same_file_changes_nothing(tmp_path: Path) -> None:
    file, saved = tmp_path / "api.json", tmp_path / "saved.yaml"
    file.write_text(json.dumps(manifest("api")))
    with cli_session("DFW", "LHR") as here:
        here.run(f"deploy -f {file} --no-wait")
        here.run("restart api --no-wait")
        restarted = spec_of(here)

        assert here.run(f"deploy -f {file} --dry-run --exit-code").code == 0
        result = here.run(f"deploy -f {file} --no-wait --save {saved}")

        assert "nothing to change" in result.err
        assert spec_of(here) == restarted
        assert "restartedAt" not in saved.read_text()


def test_a_restart_time_in_a_file_is_deployed() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run("deploy -f - --no-wait", stdin=json.dumps(manifest("api")))
        here.run("restart api --no-wait")
        body = manifest("api")
        annotations = {"compute.datumapis.com/restartedAt": "2030-01-01T00:00:00Z"}
        body["spec"]["template"]["metadata"] = {"annotations": annotations}

        assert here.run("deploy -f - --no-wait", stdin=json.dumps(body)).code == 0

        live = workload(here)
        assert live is not None
        assert live["spec"]["template"]["metadata"]["annotations"] == annotations


def spec_of(here: CliSession) -> Any:
    live = workload(here)
    return live and live["spec"]


def removals(here: CliSession, line: str) -> None:
    """Whatever the way, nothing is removed unasked."""
    before = spec_of(here)
    refused = here.run(f"{line} --no-wait")
    assert refused.code == 2, refused.transcript
    assert "2 instances in LHR will be removed" in refused.err
    assert "Try:  --yes" in refused.err
    code, shown = at_a_terminal(here, f"{line} --no-wait", "n\n")
    assert code == 9
    asked = r"2 instances in LHR will be removed( once IAD is Available)?\. Deploy it\? \[y/N\]"
    assert re.search(asked, shown.replace("\n", ""))
    assert spec_of(here) == before
    assert here.run(f"{line} --dry-run").code == 0, "a plan needs no answer"


@pytest.mark.parametrize("flags", ["--city=DFW", "--city=IAD", "--remove-city=lhr"])
def test_removing_a_city_is_counted_and_asked_for(flags: str) -> None:
    with cli_session("DFW", "IAD", "LHR") as here:
        here.run("deploy api --image=a/api:1 --city=DFW,LHR --min=2 --no-wait")
        removals(here, f"deploy api {flags}")

        code, _ = at_a_terminal(here, f"deploy api {flags} --no-wait", "y\n")

        live = workload(here)
        assert live is not None
        assert code == 0
        assert live["spec"]["placements"][0]["cityCodes"] == [flags[-3:].replace("lhr", "DFW")]


def test_a_plan_that_replaces_a_city_says_when_the_old_one_goes() -> None:
    with cli_session("DFW", "IAD", "LHR") as here:
        here.run("deploy api --image=a/api:1 --city=DFW,LHR --no-wait")
        replaced = here.run("deploy api --city=DFW,IAD --dry-run").err
        assert "1 instance in LHR will be removed once IAD is Available." in replaced
        assert (
            "1 instance in LHR will be removed."
            in here.run("deploy api --remove-city=LHR --dry-run").err
        )


def test_removing_a_placement_by_file_is_counted_and_asked_for() -> None:
    body = manifest("api")
    first = body["spec"]["placements"][0]
    first["scaleSettings"]["minReplicas"] = 2
    body["spec"]["placements"] = [{**first, "cityCodes": ["DFW"]}]
    both = json.loads(json.dumps(body))
    both["spec"]["placements"].append({**first, "name": "edge", "cityCodes": ["LHR"]})
    with cli_session("DFW", "LHR") as here:
        assert here.run("deploy -f - --no-wait", stdin=json.dumps(both)).code == 0

        refused = here.run("deploy -f - --no-wait", stdin=json.dumps(body))
        assert refused.code == 2
        assert "2 instances in LHR (placement edge) will be removed." in refused.err
        assert here.run("deploy -f - --no-wait --yes", stdin=json.dumps(body)).code == 0


def test_cities_are_added_and_removed_beside_those_that_stay() -> None:
    with cli_session("DFW", "IAD", "LHR") as here:
        here.run(f"{DEPLOY} --no-wait")
        assert here.run("deploy api --add-city=lhr,DFW --add-city=IAD --no-wait").code == 0
        live = workload(here)
        assert live is not None
        assert live["spec"]["placements"][0]["cityCodes"] == ["DFW", "LHR", "IAD"]
        assert here.run("deploy api --remove-city=DFW --no-wait --yes").code == 0
        live = workload(here)
        assert live is not None
        assert live["spec"]["placements"][0]["cityCodes"] == ["LHR", "IAD"]

        for flags, wrong in (
            ("--remove-city=DFW", '--remove-city "DFW": workload "api" runs only in LHR, IAD'),
            ("--remove-city=LHR,IAD", '--remove-city would leave "api" without a city'),
            ("--city=+DFW", "Try:  --add-city DFW"),
            ("--city=LHR,-iad", "Try:  --remove-city IAD"),
            ("--add-city=", "--add-city: expected at least one city"),
            ("--add-city=dfw --remove-city=DFW", "--add-city and --remove-city both name DFW"),
            ("--add-city=LHR --remove-city=LHR", "--add-city and --remove-city both name LHR"),
            ("--city=LHR,IAD --remove-city=LHR", "--city and --remove-city both name LHR"),
        ):
            refused = here.run(f"deploy api {flags} --no-wait")
            assert (refused.code, wrong in refused.err) == (2, True), refused.err


def test_warnings_of_the_server_are_shown_once_without_control_characters() -> None:
    body = manifest("api")
    cpu = {"resource": {"name": "cpu", "target": {"averageUtilization": 60}}}
    body["spec"]["placements"][0]["scaleSettings"] |= {"maxReplicas": 5, "metrics": [cpu]}
    with cli_session("DFW", "LHR") as here:
        created = here.run("deploy -f - --no-wait", stdin=json.dumps(body))
        assert created.code == 0
        assert created.err.count("Warning: ") == 1, created.err
        assert "autoscaling" in created.err

        async def warn(request: HttpRequest, number: int) -> HttpResponse | None:
            if request.method not in ("PATCH", "DELETE"):
                return None
            response = await here.platform.server.handle(request)
            header = {"warning": '299 - "red \x1b[31m alert"'}
            return msgspec.structs.replace(response, headers={**response.headers, **header})

        for line in (
            "scale api --min 1",
            "rollout undo api --yes",
            "restart api",
            "destroy api -y",
        ):
            shown = InterceptedSession(here, warn).run(f"{line} --no-wait").err
            assert shown.count("Warning: red  [31m alert\n") == 1, (line, shown)


SECRETS = ("--env=DB_PASSWORD=hunter2", "--env=URL=postgres://me:hunter2@db/x", "--env=LOG=debug")


def test_values_that_look_like_secrets_are_masked_in_plans_and_history() -> None:
    with cli_session("DFW", "LHR") as here:
        shown = [here.run(f"{DEPLOY} {' '.join(SECRETS)} --no-wait").err]
        changed = " ".join(SECRETS).replace("hunter2", "hunter3")
        shown.append(here.run(f"deploy api {changed} --no-wait").err)
        shown.append(here.run("rollout history api").out)
        shown.append(here.run("rollout history api --revision 2").out)
        whole = here.run("rollout history api --revision 2 -o json").json
        shown.append(json.dumps({**whole, "object": None}))
        shown.append(here.run("rollout undo api --yes --no-wait").err)

        assert not [text for text in shown if "hunter" in text]
        assert "env DB_PASSWORD   ••••" in shown[0]
        assert "env LOG           debug" in shown[0]
        assert "env DB_PASSWORD   •••• → ••••" in shown[1]
        assert "env URL           •••• → ••••" in shown[1]
        assert "hunter3" in json.dumps(whole["object"]), "the raw object is whole"
        live = workload(here)
        assert "hunter2" in json.dumps(live), "an undo restores what the mask hides"


def test_a_withdrawn_city_is_a_warning_for_a_workload_that_has_it() -> None:
    with cli_session("DFW", "LHR") as here:
        assert here.run("deploy api --image=a/api:1 --city=DFW,LHR --no-wait").code == 0
        here.act(here.client().delete(networking.LOCATION_BINDINGS, "lhr"))

        result = here.run("deploy api --image=a/api:2 --no-wait")

        assert result.code == 0, result.transcript
        assert "Warning: LHR is no longer served in project demo." in result.err
        assert here.run("deploy web --image=a/web:1 --city=LHR --no-wait").code == 7


def test_city_codes_compare_without_regard_to_case() -> None:
    body = manifest("api")
    body["spec"]["placements"][0]["cityCodes"] = ["dfw"]
    with cli_session("DFW", "LHR") as here:
        assert here.run("deploy -f - --no-wait", stdin=json.dumps(body)).code == 0
        assert "nothing to change" in here.run("deploy api --city=DFW --no-wait").err
        assert "nothing to change" in here.run("deploy api --add-city=DFW --no-wait").err
        body["spec"]["placements"][0]["cityCodes"] = ["Dfw"]
        assert here.run("deploy -f - --no-wait", stdin=json.dumps(body)).code == 0, "none removed"


def test_scale_warns_of_short_quota_as_deploy_does() -> None:
    with cli_session("DFW", grant={"instances": 4}) as here:
        here.run(f"{DEPLOY} --no-wait")
        here.wait(5)

        short = (
            "Warning: this needs 9 more instances, but the quota has 3 left; the rest will wait."
        )
        assert short in here.run("deploy api --min=10 --dry-run").err
        assert short in here.run("scale api --min 10 --no-wait").err


def test_a_directory_that_is_not_there_is_not_built() -> None:
    with cli_session("DFW") as here:
        refused = here.run("deploy web --build /nonexistent/site --city DFW")

    assert (refused.code, refused.err) == (
        2,
        'Error: --build "/nonexistent/site": there is no such directory\n',
    )


def test_scaling_to_zero_names_the_command_that_stops() -> None:
    with cli_session("DFW") as here:
        refused = here.run("scale web --min 0")

    assert (refused.code, refused.err.splitlines()[1:]) == (2, ["Try:  datumctl-compute stop web"])


def test_a_platform_without_an_engine_says_that_it_builds_no_images(tmp_path: Path) -> None:
    with cli_session("DFW") as here:
        elsewhere = here.run("deploy web --build . --city DFW")
        state = StateDirectory(tmp_path)
        state.store_settings(LocalSettings(runtime="simulated"))
        here.local_directory = str(tmp_path)
        simulated = here.run("deploy web --build . --city DFW")
        written = here.run("workloads -o name")

    assert (elsewhere.code, simulated.code, written.out) == (13, 13, "")
    assert "this platform cannot build images: its runtime is simulated" in simulated.err
    assert "push the image to a registry" in elsewhere.err


def test_programs_learn_what_was_deployed_beside_a_workload_that_fails() -> None:
    documents = [manifest("a"), manifest("b", fail="ImageUnavailable"), manifest("c")]
    with cli_session() as here:
        found = here.run("deploy -f - -o json", stdin="---\n".join(map(yaml.safe_dump, documents)))

        assert found.code == 3
        assert [(each["name"], each["action"]) for each in found.json] == [
            ("a", "created"),
            ("b", "created"),
            ("c", "created"),
        ]
        assert [each["instances"] is None for each in found.json] == [False, True, True]


@pytest.mark.parametrize(("wanted", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_error_is_the_last_object_on_stderr_in_the_format_asked_for(
    wanted: str, load: Any
) -> None:
    first = "{" if wanted == "json" else "error:"
    with cli_session() as here:
        lines = here.run(f"{DEPLOY} -o {wanted} --timeout 0s --network=default").err.splitlines()

    error = load("\n".join(lines[lines.index(first) :]))["error"]
    assert (error["code"], error["retryable"]) == ("TimedOut", True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--command=", "--command: expected the name of a program"),
        ("--min=1_0", '--min: "1_0" is not a whole number'),
        ("--min=٣", '--min: "٣" is not a whole number'),
        ("--timeout=٣s", '--timeout: "٣s" is not a duration such as 45s, 10m or 1h30m'),
        ("--save -", "--save -: expected the name of a file"),
    ],
)
def test_a_flag_with_a_likely_mistake_is_refused(flags: str, message: str) -> None:
    with cli_session("DFW") as here:
        here.run(f"{DEPLOY} --env=LOG=debug --label=team=web --no-wait")
        before = workload(here)

        refused = here.run(f"deploy api {flags}")

        assert refused.code == 2
        assert f"Error: {message}\n" in refused.err
        after = workload(here)
        assert before is not None
        assert after is not None
        assert (after["metadata"]["labels"], after["spec"]) == (
            before["metadata"]["labels"],
            before["spec"],
        )


def test_the_last_label_and_variable_can_be_removed_and_removed_again() -> None:
    with cli_session("DFW") as here:
        here.run(f"{DEPLOY} --env=LOG=debug --label=team=web --no-wait")

        for _ in range(2):
            assert here.run("deploy api --env=LOG- --label=team- --no-wait").code == 0
