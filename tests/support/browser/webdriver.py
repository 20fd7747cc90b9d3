"""A headless Chromium, driven over the WebDriver protocol by chromedriver."""

from __future__ import annotations

import base64
import http.client
import json
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NEEDED = ("chromium", "chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
    "--hide-scrollbars",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's id in the protocol."""
POLL_SECONDS = 0.1
WAIT_SECONDS = 60.0
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Space": " "}


def missing_programs() -> list[str]:
    return [each for each in NEEDED if shutil.which(each) is None]


class Browser:
    """One window. What fails raises with the message of the browser."""

    def __init__(self, port: int, profile: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        options = {"args": [*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        found = self._send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{found['sessionId']}"

    def close(self) -> None:
        self._send("DELETE", self._session)
        self._connection.close()

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        content = json.dumps({} if body is None else body) if method == "POST" else None
        self._connection.request(method, path, content, {"content-type": "application/json"})
        value = json.loads(self._connection.getresponse().read())["value"]
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{value['error']}: {value['message']}")
        return value

    def _do(self, method: str, path: str, body: Any = None) -> Any:
        return self._send(method, self._session + path, body)

    def open(self, url: str) -> None:
        self._do("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self._do("GET", "/url"))

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a function's body in the page."""
        return self._do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def cdp(self, command: str, **parameters: Any) -> Any:
        return self._do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def text(self, selector: str = "body") -> str:
        script = "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''"
        return str(self.run(script, selector))

    def click(self, selector: str, text: str = "") -> None:
        """The first element of the selector whose text contains ``text``."""
        found = self.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".find(e => e.textContent.includes(arguments[1])) || null",
            selector,
            text,
        )
        assert found is not None, f"no {selector} with {text!r} in: {self.text()}"
        self.run("arguments[0].scrollIntoView({block: 'center'})", found)
        self._do("POST", f"/element/{found[ELEMENT]}/click")

    def press(self, *keys: str) -> None:
        """Press keys by name, or type a text."""
        strokes = [KEYS.get(key, key) for key in keys]
        actions = [
            {"type": kind, "value": each}
            for stroke in strokes
            for each in (stroke if stroke not in KEYS.values() else [stroke])
            for kind in ("keyDown", "keyUp")
        ]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._do("POST", "/actions", {"actions": [keyboard]})

    def wait(self, holds: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
        """Until it holds; otherwise fail with what the page shows."""
        for _ in range(int(seconds / POLL_SECONDS)):
            found = holds()
            if found:
                return found
            select.select([], [], [], POLL_SECONDS)
        raise AssertionError(f"the page never showed {what}; it shows:\n{self.text()}")

    def wait_text(self, text: str, selector: str = "body", seconds: float = WAIT_SECONDS) -> None:
        self.wait(lambda: text in self.text(selector), f"{text!r} in {selector}", seconds)

    def resize(self, width: int, height: int) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.cdp("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        found = self.cdp(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, fromSurface=True
        )
        file.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """What the browser wrote to its console since the last call."""
        found = self._do("POST", "/se/log", {"type": "browser"})
        return [f"{each['level']}: {each['message']}" for each in found]


@contextmanager
def chromium() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory() as profile:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            browser = Browser(_port_of(driver), profile)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()
            driver.wait(20)
            assert driver.stdout is not None
            driver.stdout.close()


def _port_of(driver: subprocess.Popen[bytes]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        found = re.search(rb"started successfully on port (\d+)", line)
        if found:
            return int(found[1])
    raise AssertionError("chromedriver did not start")
