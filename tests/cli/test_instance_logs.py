"""Log lines from the provider of a cell to the ``logs`` command."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl, urlsplit

import msgspec

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import TOKEN, CliSession, cli_session
from tests.support.paths import ROOT

DEPLOY = "deploy api --image=registry.example/api:1.4.2 --city=DFW,LHR --min 2"
STARTED = "simulated: started registry.example/api:1.4.2 (no container runs)"
NAMES = [f"api-default-{city}-{ordinal}" for city in ("dfw", "lhr") for ordinal in (0, 1)]


def ask(
    here: CliSession,
    name: str,
    plane: str = "project/demo",
    namespace: str = "default",
    **query: str,
) -> HttpResponse:
    path = f"/apis/compute.datumapis.com/v1alpha/namespaces/{namespace}/instances/{name}/log"
    request = HttpRequest(
        "GET",
        planes.plane_prefix(plane) + path,
        tuple(query.items()),
        {"authorization": f"Bearer {TOKEN}"},
    )
    return here.act(here.platform.server.handle(request))


def test_logs_of_a_deployment_show_the_start_of_each_instance() -> None:
    with cli_session() as here:
        here.run(DEPLOY)

        result = here.run("logs api")
        one_city = here.run("logs --city LHR")
        one = here.run("logs api-default-dfw-1 --tail 5 --since 1h")

        assert result.code == 0
        assert sorted(result.out.splitlines()) == [f"{name} | {STARTED}" for name in NAMES]
        assert sorted(one_city.out.splitlines()) == [f"{name} | {STARTED}" for name in NAMES[2:]]
        assert one.out == f"api-default-dfw-1 | {STARTED}\n"


def test_logs_show_a_crash_in_order() -> None:
    with cli_session() as here:
        here.run("deploy -f -", stdin=json.dumps(manifest("api", crash_after_seconds="60")))
        here.wait(120)

        result = here.run("logs api")
        last = here.run("logs api --tail 1")
        late = here.run("logs api --since 90s")

        texts = [line.split("simulated: ")[1].split(" ")[0] for line in result.out.splitlines()]
        assert texts == ["started"] * 4 + ["failed:"] * 4
        assert last.out == late.out
        assert last.out.count("InstanceCrashing") == len(last.out.splitlines()) == 4


def test_the_path_that_the_docs_give_kubectl_reads_the_log() -> None:
    page = (ROOT / "docs" / "operate" / "local.md").read_text(encoding="utf-8")
    shown = re.search(r'get --raw "([^"]+/log[^"]*)"', page)
    assert shown is not None
    path = urlsplit(shown[1])
    with cli_session() as here:
        here.run("deploy hello --image=registry.example/api:1.4.2 --city=DFW")
        headers = {"authorization": f"Bearer {TOKEN}"}
        request = HttpRequest("GET", path.path, tuple(parse_qsl(path.query)), headers)

        response = here.act(here.platform.server.handle(request))

        assert (response.status, response.body.decode()) == (200, f"{STARTED}\n")


async def _all(response: HttpResponse) -> list[bytes]:
    assert response.stream is not None, response
    return [chunk async for chunk in response.stream]


def test_following_ends_when_the_instance_is_deleted() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        reading = here.loop.create_task(_all(ask(here, NAMES[0], follow="true")))
        here.wait(600)
        went_on = not reading.done()
        here.run("destroy api --yes")
        here.wait(5)

        assert went_on
        assert reading.done()
        assert reading.result() == [f"{STARTED}\n".encode(), b"simulated: stopped\n"]
        assert ask(here, NAMES[0]).status == 404


def test_the_cell_plane_serves_the_same_lines() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        namespace = _hub_namespace(here)

        there = ask(here, NAMES[0], "cell/dfw", namespace, timestamps="true")

        assert there.body == ask(here, NAMES[0], timestamps="true").body
        assert there.body.decode().endswith(f"Z {STARTED}\n")
        assert ask(here, NAMES[0], "hub", namespace).status == 404


def test_a_disconnected_cell_has_no_logs_and_ends_followed_streams() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        reading = here.loop.create_task(_all(ask(here, NAMES[0], follow="true")))
        here.wait(5)
        here.platform.partitions.disconnect("dfw")
        here.wait(5)
        away = ask(here, NAMES[0])
        elsewhere = ask(here, NAMES[2])
        in_the_cell = ask(here, NAMES[0], "cell/dfw", _hub_namespace(here))
        here.platform.partitions.connect("dfw")

        assert reading.done()
        assert reading.result() == [f"{STARTED}\n".encode()]
        assert away.status == 503
        assert msgspec.json.decode(away.body)["message"].startswith("cell dfw is disconnected")
        assert (elsewhere.status, in_the_cell.status) == (200, 200)
        assert ask(here, NAMES[0]).body == f"{STARTED}\n".encode()


def test_a_replacement_has_only_its_own_lines() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        here.run("deploy api --image=a:2 --city=DFW")

        result = here.run("logs api")

        assert result.out == "api-default-dfw-0 | simulated: started a:2 (no container runs)\n"


def _hub_namespace(here: CliSession) -> str:
    """The project's namespace in the cells."""
    (namespace,) = {
        each.namespace for each in here.act(here.client("cell/dfw").list(compute.INSTANCES)).items
    }
    return namespace
