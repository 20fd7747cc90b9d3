"""``open`` starts a browser where there is one, and prints the URL everywhere."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.local.state import LocalSettings, StateDirectory
from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from datum_compute.client.protocol import merge
from tests.support.cli.session import CliSession, SessionEnvironment, SessionReach, cli_session

URL = "http://api.demo.localhost:7480"


class Browser(SessionReach):
    """Opens nothing, and says whether there is a browser."""

    def __init__(self, session: CliSession, *, is_there: bool = True) -> None:
        super().__init__(session)
        self.opened: list[str] = []
        self._is_there = is_there

    def open_url(self, url: str) -> bool:
        self.opened.append(url)
        return self._is_there


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def here() -> Iterator[CliSession]:
    with cli_session("DFW", "LHR", router_port=7480) as session:
        deploy = "deploy api --image=a:1 --city=DFW,LHR --http-port=80"
        assert session.run(deploy).out.splitlines()[-1] == URL
        yield session


def call(
    here: CliSession, browser: Browser, *argv: str, out: io.StringIO, display: str = ""
) -> str:
    env = SessionEnvironment(1, variables={display: ":0"} if display else {})
    env.loop = here.loop
    assert main(argv, env, Streams(io.StringIO(), out, io.StringIO()), reach=browser) == 0
    return out.getvalue().strip()


@pytest.mark.parametrize("display", ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"])
def test_at_a_screen_the_browser_opens_the_url(here: CliSession, display: str) -> None:
    browser = Browser(here)
    shown = call(here, browser, "open", "api", out=Screen(), display=display)
    assert (shown, browser.opened) == (URL, [URL])


def test_without_a_screen_or_in_a_pipe_the_url_is_printed(here: CliSession) -> None:
    browser = Browser(here)
    assert call(here, browser, "open", "api", out=Screen()) == URL
    assert call(here, browser, "open", "api", out=io.StringIO(), display="DISPLAY") == URL
    assert call(here, browser, "open", "api", "--print", out=Screen(), display="DISPLAY") == URL
    assert browser.opened == []


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        (
            "simulated",
            "It answers 503 to every request:"
            " its instances are simulated, so nothing runs that could answer.\n",
        ),
        ("podman", ""),
    ],
)
def test_a_url_behind_which_nothing_runs_is_said_to_be(
    here: CliSession, tmp_path: Path, runtime: str, said: str
) -> None:
    StateDirectory(tmp_path).store_settings(LocalSettings(runtime=runtime))
    here.local_directory = str(tmp_path)
    try:
        found = here.run("open api")
    finally:
        here.local_directory = ""
    assert (found.code, found.out, found.err) == (0, f"{URL}\n", said)


def test_a_url_of_another_platform_is_shown_and_not_replaced(here: CliSession) -> None:
    other = "https://api.example.com"
    note = {"metadata": {"annotations": {compute.ANNOTATION_URL: other}}}
    here.act(here.client().patch(compute.WORKLOADS, "api", merge(note), "default"))
    here.wait(60)
    assert here.run("open api").out.strip() == other
    gone = {"metadata": {"annotations": {compute.ANNOTATION_URL: None}}}
    here.act(here.client().patch(compute.WORKLOADS, "api", merge(gone), "default"))
    here.wait(60)
    assert here.run("open api").out.strip() == URL


def test_a_saved_manifest_has_the_port_and_not_the_url(here: CliSession, tmp_path: Path) -> None:
    saved = tmp_path / "api.yaml"
    assert here.run(f"deploy api --no-wait --save {saved}").code == 0
    assert compute.ANNOTATION_HTTP_PORT in saved.read_text()
    assert compute.ANNOTATION_URL not in saved.read_text()
