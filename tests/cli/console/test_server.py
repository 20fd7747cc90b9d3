"""The console as its page uses it: links, sessions, the stream, and who may do what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from datum_compute.client.transport import HttpRequest
from tests.support.cli.read_screens import DEPLOY
from tests.support.cli.session import TOKEN, cli_session
from tests.support.console import ServedConsole, served_console

Json = dict[str, Any]


@pytest.fixture(scope="module")
def served() -> Iterator[ServedConsole]:
    """For all tests that change nothing on the platform."""
    with cli_session() as here, served_console(here) as found:
        yield found


@pytest.fixture(scope="module")
def running() -> Iterator[ServedConsole]:
    """With a workload of two revisions, for all tests that do not change it."""
    with cli_session() as here, served_console(here) as found:
        deploy(found)
        deploy(found, "deploy api --image=registry.example/acme/api:1.5.0")
        yield found


@pytest.fixture
def changing() -> Iterator[ServedConsole]:
    with cli_session() as here, served_console(here) as found:
        deploy(found)
        yield found


def add_user(served: ServedConsole, name: str, role: str, project: str = "demo") -> str:
    body = json.dumps({"name": name, "project": project, "role": role}).encode()
    headers = {"authorization": f"Bearer {TOKEN}"}
    request = HttpRequest("POST", "/local/v1/users", (), headers, body)
    answer = served.here.act(served.here.platform.server.handle(request))
    return str(json.loads(answer.body)["token"])


def deploy(served: ServedConsole, line: str = DEPLOY) -> None:
    result = served.here.run(line)
    assert result.code == 0, result.err


# Links and sessions


def test_a_link_opens_the_console_once(served: ServedConsole) -> None:
    code = served.code()

    first = served.call("POST", "/console/session", {"code": code})
    second = served.call("POST", "/console/session", {"code": code})

    assert (first.status, second.status) == (200, 401)
    assert second.json["error"] == "this link was used already, or is older than a minute"


def test_a_link_expires_after_a_minute(served: ServedConsole) -> None:
    code = served.code()
    served.here.wait(61)

    assert served.call("POST", "/console/session", {"code": code}).status == 401


def test_a_user_without_rights_in_a_project_gets_no_link(served: ServedConsole) -> None:
    token = add_user(served, "ana", "viewer")

    assert served.ask(token=token).status == 201
    assert served.ask(project="other", token=token).status in (403, 404)
    assert served.ask(token="").status == 403
    assert served.ask(token="nosuch").status == 401


def test_a_malformed_request_for_a_link_says_what_is_wrong(served: ServedConsole) -> None:
    assert "Bad Name" in served.ask(project="Bad Name").json["message"]
    assert "colour" in served.ask(colour="red").json["message"]


def test_the_command_prints_the_link_and_what_it_allows(served: ServedConsole) -> None:
    result = served.here.run("console --allow-writes")

    assert result.out.startswith("http://127.0.0.1:4321/console/#")
    assert "once, within a minute. It can change workloads." in result.err
    assert "It is read-only." in served.here.run("console").err


def test_a_platform_without_a_console_says_so() -> None:
    with cli_session() as here:
        result = here.run("console")

    assert result.code == 13
    assert "serves no console" in result.err


def test_every_path_with_data_asks_for_the_token_of_a_session(served: ServedConsole) -> None:
    served.begin(allowWrites=True)
    for method, path in (
        ("GET", "stream"),
        ("GET", "logs"),
        ("GET", "revision"),
        ("POST", "plan"),
        ("POST", "run"),
    ):
        for given in ({}, {"authorization": "Bearer nosuch"}, {"authorization": f"Bearer {TOKEN}"}):
            assert served.call(method, f"/console/{path}", {}, headers=given).status == 401, path


def test_a_session_ends_when_no_page_uses_it(served: ServedConsole) -> None:
    page = served.begin()
    served.here.wait(3601)

    assert page.call("GET", "revision", name="api", number=1).status == 401


# Other sites


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:4321"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:4321"}, 421),
        ({"origin": "http://127.0.0.1:4321"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:80"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_requests_of_other_sites_are_refused(
    served: ServedConsole, headers: dict[str, str], status: int
) -> None:
    served.code()

    assert served.call("GET", "/console/app.js", headers=headers).status == status


def test_a_refused_origin_does_not_use_up_a_link(served: ServedConsole) -> None:
    code = served.code()
    evil = {"origin": "http://evil.example"}

    assert served.call("POST", "/console/session", {"code": code}, headers=evil).status == 403
    assert served.call("POST", "/console/session", {"code": code}).status == 200


# Files


def test_the_page_is_served_with_a_strict_policy(served: ServedConsole) -> None:
    served.code()
    for path in ("/console/", "/console/app.js", "/console/app.css", "/console/vendor/preact.js"):
        answer = served.call("GET", path)
        policy = answer.headers["content-security-policy"]

        assert answer.status == 200, path
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/console/../sessions.py",
        "/console/vendor/../../sessions.py",
        "/console/vendor/LICENSE-htm",
        "/console/..%2fsessions.py",
        "/console//etc/passwd",
        "/console/\0",
        "/consoleapp.js",
        "/",
        "/console",
        "/api/v1/namespaces",
        "/local/v1/status",
    ],
)
def test_nothing_but_the_files_of_the_page_is_served(served: ServedConsole, path: str) -> None:
    served.code()

    assert served.call("GET", path).status == 404


# The stream


def test_a_stream_begins_with_everything_and_goes_on_with_changes(changing: ServedConsole) -> None:
    stream = changing.begin().stream(focus="api")

    first = stream.next()
    stream.until(lambda models: "why/api" in models)
    deploy(changing, "scale api --min 3 --no-wait")
    stream.until(lambda models: models["workloads/api"]["ready"] == 6)

    assert first.event == "snapshot"
    assert {f"instances/api-default-dfw-{each}" for each in range(3)} <= stream.models.keys()
    assert "object" not in stream.models["workloads/api"]


def test_a_removed_workload_leaves_the_stream(changing: ServedConsole) -> None:
    stream = changing.begin().stream()
    stream.until(lambda models: "workloads/api" in models)

    deploy(changing, "destroy api --yes")

    stream.until(lambda models: not [key for key in models if key.endswith("/api")])
    assert not [key for key in stream.models if key.startswith("instances/")]


def test_a_stream_that_comes_back_gets_only_what_changed(changing: ServedConsole) -> None:
    page = changing.begin()
    stream = page.stream()
    stream.until(lambda models: "workloads/api" in models)
    stream.close()
    known = dict(stream.models)
    deploy(changing, "scale api --min 3")

    again = page.stream(last=stream.last)
    message = again.next()

    assert message.event == "change"
    assert "instances/api-default-dfw-0" not in message.models  # it did not change
    again.models = {**known, **again.models}
    again.until(lambda models: models["workloads/api"]["ready"] == 6)


@pytest.mark.parametrize("last", ["", "nosuch.7", "x", "….1", "999"])
def test_a_reader_with_an_unknown_revision_gets_everything(
    running: ServedConsole, last: str
) -> None:
    stream = running.begin().stream(last=last)

    assert stream.next().event == "snapshot"
    stream.until(lambda models: "workloads/api" in models)


def test_details_go_only_to_the_stream_that_shows_them(running: ServedConsole) -> None:
    page = running.begin()
    focused, other = page.stream(focus="api"), page.stream()

    focused.until(lambda models: "history/api" in models)
    other.until(lambda models: "workloads/api" in models)
    for _ in range(3):
        other.next()

    assert not [key for key in other.models if key.startswith(("why/", "history/"))]


def test_a_slow_reader_gets_what_is_current_and_costs_nothing(changing: ServedConsole) -> None:
    """Fifty changes while it does not read are one message, no larger than the first."""
    stream = changing.begin().stream()
    stream.until(lambda models: "workloads/api" in models)
    whole = stream.taken
    for minimum in range(25):
        deploy(changing, f"scale api --min {2 + minimum % 2} --no-wait")
        changing.here.wait(20)
    before = stream.taken

    message = stream.next()

    assert message.models
    assert stream.taken - before < 2 * whole


def test_a_session_has_a_limited_number_of_streams(running: ServedConsole) -> None:
    page = running.begin()
    for _ in range(6):
        page.stream().next()

    assert page.call("GET", "stream").status == 429


def test_the_project_is_not_read_after_the_last_stream(changing: ServedConsole) -> None:
    page = changing.begin()
    stream = page.stream()
    stream.until(lambda models: models)
    stream.close()
    changing.here.wait(70)

    tasks = asyncio.all_tasks(changing.here.loop)
    watching = [each.get_name() for each in tasks if "console " in each.get_name()]

    assert watching == []


def test_nothing_of_another_project_arrives(changing: ServedConsole) -> None:
    assert changing.here.run("projects create shop").code == 0
    deploy(changing, f"{DEPLOY.replace('deploy api', 'deploy hidden')} --project shop --no-wait")
    stream = changing.begin(token=add_user(changing, "ana", "viewer")).stream(focus="hidden")
    stream.until(lambda models: "workloads/api" in models)
    for _ in range(5):
        stream.next()

    assert "hidden" not in json.dumps(stream.models)


def test_a_session_of_a_removed_user_reads_nothing_more(running: ServedConsole) -> None:
    stream = running.begin(token=add_user(running, "ana", "viewer")).stream()
    stream.until(lambda models: "workloads/api" in models)
    headers = {"authorization": f"Bearer {TOKEN}"}
    removal = HttpRequest("DELETE", "/local/v1/users/ana", (), headers)
    running.here.act(running.here.platform.server.handle(removal))

    page = running.begin(token=add_user(running, "eve", "viewer"))

    assert page.session["project"] == "demo"
    stream.until(lambda models: [key for key in models if key.startswith("problems/")], 400)


# Changes


def test_a_read_only_console_changes_nothing(running: ServedConsole) -> None:
    answer = running.begin().plan(verb="scale", name="api", minimum=3)

    assert answer.status == 403
    assert answer.json["hint"] == "datumctl-compute console --allow-writes"


def test_a_viewer_cannot_write_even_if_the_console_may(running: ServedConsole) -> None:
    page = running.begin(token=add_user(running, "vic", "viewer"), allowWrites=True)

    plan = page.plan(verb="scale", name="api", minimum=3)
    run = page.call("POST", "run", {"verb": "stop", "name": "api", "generation": 2})

    assert (plan.status, run.status) == (422, 422)
    assert 'User "vic" cannot patch' in plan.json["error"]
    assert running.here.run("status api -o json").json["health"] == "Available"


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "scale", "minimum": 3},
        {"verb": "restart"},
        {"verb": "restart", "city": "DFW"},
        {"verb": "undo", "revision": 1},
        {"verb": "stop"},
        {"verb": "stop", "city": "LHR"},
    ],
)
def test_a_plan_writes_nothing(running: ServedConsole, change: Json) -> None:
    page = running.begin(allowWrites=True)
    before = running.here.platform.store.planes["project/demo"].revision

    plan = page.plan(name="api", **change).json

    assert plan["lines"]
    assert plan["writes"]
    assert plan["command"].startswith("datumctl-compute ")
    assert running.here.platform.store.planes["project/demo"].revision == before


def test_a_plan_says_what_the_command_says_and_what_changes(running: ServedConsole) -> None:
    plan = running.begin(allowWrites=True).plan(verb="scale", name="api", minimum=3).json

    assert plan["lines"] == ['Scaling "api": min replicas 2 → 3 (revision #2 → #3)']
    assert plan["diff"] == [{"field": "min replicas (default)", "old": "2", "new": "3"}]
    assert plan["command"] == "datumctl-compute scale api --min 3"


def test_a_change_does_what_the_command_does(changing: ServedConsole) -> None:
    page = changing.begin(token=add_user(changing, "ana", "editor"), allowWrites=True)

    def after(**change: Any) -> Any:
        answer = page.carry_out(name="api", **change)
        assert answer.status == 200, (change, answer.body)
        return changing.here.run("status api -o json").json

    assert after(verb="scale", minimum=3)["placements"][0]["desired"] == 3
    assert after(verb="undo", revision=1)["placements"][0]["desired"] == 2
    assert after(verb="stop")["health"] == "Stopped"
    assert after(verb="start")["health"] != "Stopped"
    assert after(verb="restart")["revision"] == 4
    [newest, *_] = changing.here.run("rollout history api -o json").json
    assert newest["actor"] == "ana"


def test_a_rollout_in_waves_is_paused_promoted_and_resumed(served: ServedConsole) -> None:
    deploy(served, f"{DEPLOY} --waves=each --soak=600s --no-wait")
    served.here.wait(2000)
    deploy(served, "deploy api --image=registry.example/acme/api:1.5.0 --no-wait")
    page = served.begin(allowWrites=True)

    paused = page.carry_out(verb="pause", name="api").json
    served.here.wait(1)
    stage = served.here.run("rollout status api --no-wait -o json").json["stage"]
    promoted = page.plan(verb="promote", name="api").json
    resumed = page.carry_out(verb="resume", name="api").json

    assert paused["lines"][0].startswith('The rollout of "api" is paused')
    assert stage == "Paused"
    assert promoted["lines"] == ["Wave 2 of 2 opens: LHR. The rollout is not paused any more."]
    assert resumed["lines"] == ['The rollout of "api" goes on.']


def test_a_plan_for_another_state_is_refused(changing: ServedConsole) -> None:
    page = changing.begin(allowWrites=True)
    plan = page.plan(verb="scale", name="api", minimum=3).json
    deploy(changing, "scale api --min 1")

    change = {"verb": "scale", "name": "api", "minimum": 3, "generation": plan["generation"]}
    answer = page.call("POST", "run", change)

    assert answer.status == 409
    assert changing.here.run("status api -o json").json["placements"][0]["desired"] == 1


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"verb": "destroy", "name": "api"}, "Invalid enum value 'destroy'"),
        ({"verb": "scale", "name": "api", "minimum": 0}, "--min 0: expected a number"),
        ({"verb": "scale", "name": "api", "minimum": "3"}, "Expected `int`"),
        ({"verb": "scale", "name": "nosuch", "minimum": 3}, 'workload "nosuch" not found'),
        ({"verb": "stop", "name": "--help"}, 'name "--help": expected the name of a workload'),
        ({"verb": "stop", "name": "api", "city": "--help"}, 'city "--help": expected a code'),
        ({"verb": "stop", "name": "api", "city": "XYZ"}, 'city "XYZ" not found'),
        ({"verb": "undo", "name": "api", "revision": 9}, "revision #9"),
        ({"verb": "promote", "name": "api"}, "has no waves"),
        ({"verb": "stop", "name": "api", "colour": "red"}, "unknown field `colour`"),
        ([], "Expected `object`"),
    ],
)
def test_a_bad_change_says_what_is_wrong(running: ServedConsole, change: Any, part: str) -> None:
    answer = running.begin(allowWrites=True).call("POST", "plan", change)

    assert answer.status == 422
    assert part in answer.json["error"]


def test_a_revision_is_shown_in_full_without_secrets(changing: ServedConsole) -> None:
    deploy(changing, "deploy api --env=API_TOKEN=planted-s3cr3t --yes")
    page = changing.begin()

    answer = page.call("GET", "revision", name="api", number=2)

    assert answer.json["diff"]
    assert answer.json["comparedWith"] == 1
    assert b"planted-s3cr3t" not in answer.body
    assert page.call("GET", "revision", name="api", number=9).status == 422
    assert page.call("GET", "revision", name="api", number="x").status == 422
