"""``--watch`` in formats for programs, and how it ends."""

from __future__ import annotations

import io
import json

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import new_workload
from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from datum_compute.cli.render.watch import MAX_FAILURES
from datum_compute.client.protocol import merge
from tests.support.cli.session import CliSession, SessionReach, cli_session


class Stops(io.StringIO):
    """Output whose reader interrupts once a text is printed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._text in text:
            raise KeyboardInterrupt
        return written


def watched(here: CliSession, line: str, until: str) -> tuple[int, str, str]:
    out, err = Stops(until), io.StringIO()
    streams = Streams(io.StringIO(), out, err)
    code = main([*line.split(), "--watch"], here.env, streams, reach=SessionReach(here))
    return code, out.getvalue(), err.getvalue()


def documents(text: str) -> list[dict[str, object]]:
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].strip()
    return found


def test_watch_as_json_prints_only_changed_views() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        here.run("deploy web --image=a:1 --city=DFW")
        here.wait(1)
        here.loop.call_later(5.5, lambda: _change(here, "web", "a:2"))
        code, out, _ = watched(here, "workloads -o json", until='"image": "a:2"')

        assert code == 130
        assert [(view["name"], view["image"]) for view in documents(out)] == [
            ("api", "a:1"),
            ("web", "a:1"),
            ("web", "a:2"),
        ]


def _change(here: CliSession, name: str, image: str) -> None:
    containers = [{"name": "app", "image": image}]
    spec = {"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}}
    patching = here.client().patch(compute.WORKLOADS, name, merge({"spec": spec}), "default")
    here.tasks.append(here.loop.create_task(patching))


def test_watch_by_name_prints_each_name_once() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        here.wait(1)
        here.loop.call_later(5.5, lambda: _deploy_another(here))
        code, out, _ = watched(here, "workloads -o name", until="workload/web")

        assert code == 130
        assert out.split() == ["workload/api", "workload/web"]


def _deploy_another(here: CliSession) -> None:
    body = new_workload("web", Flags(image="a:1", cities=("DFW",)))
    creating = here.client().create(compute.WORKLOADS, body, "default")
    here.tasks.append(here.loop.create_task(creating))


def test_a_deleted_workload_ends_its_watch_with_exit_code_5() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        here.loop.call_later(3, lambda: _delete(here))
        code, out, err = watched(here, "status api", until="never printed")

        assert code == 5
        assert "Workload   api" in out
        assert 'workload "api" not found' in err


def _delete(here: CliSession) -> None:
    deleting = here.client().delete(compute.WORKLOADS, "api", "default")
    here.tasks.append(here.loop.create_task(deleting))


def test_an_unreachable_platform_ends_the_watch_with_exit_code_1() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        here.broken_after = 3
        before = here.loop.time()
        code, out, err = watched(here, "instances", until="never printed")

        assert code == 1
        assert "api-default-dfw-0" in out
        assert "lost contact with the platform" in err
        assert here.loop.time() - before >= MAX_FAILURES - 1
