"""The console in a browser: what a person sees of a rollout, an outage and a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.browser.platform import BrowserPlatform
from tests.support.browser.webdriver import Browser

pytestmark = [pytest.mark.browser, pytest.mark.realtime]

PHASES = (
    "return [...document.querySelectorAll('.city')].map(c => [c.dataset.city, c.dataset.phase])"
)


@pytest.fixture(scope="module", autouse=True)
def workloads(platform: BrowserPlatform) -> None:
    cities = ("--city=DFW,IAD,LHR", "--min=2")
    platform.deploys("hello", *cities, "--waves=each", "--soak=3s")
    platform.applies("broken", city="LHR", fail="ImageUnavailable")
    platform.types("rollout", "status", "hello", "--window=0s")


def opened(browser: Browser, platform: BrowserPlatform, *flags: str) -> Browser:
    browser.open(platform.link(*flags))
    browser.wait_text("6/6 ready", "#workloads")
    return browser


def show(browser: Browser, name: str) -> None:
    browser.run("location.hash = arguments[0]", f"#/{name}")
    browser.wait_text(name, ".head")
    browser.wait_text("Nothing is wrong" if name == "hello" else "You can act", "#why")


def test_the_first_paint_comes_within_100_milliseconds(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    """From the request to the first paint, as the browser measures it. The best of five, and
    beyond what a bare picture of the same server takes: other programs use the machine too."""
    script = "return performance.getEntriesByName('first-paint')[0]?.startTime || 0"
    painted = []
    for _ in range(5):
        opened(browser, platform)
        page = browser.wait(lambda: browser.run(script), "a first paint")
        origin = browser.run("return location.origin")
        browser.open(f"{origin}/console/icon.svg")
        painted.append((page, browser.wait(lambda: browser.run(script), "a picture")))
    best, bare = min(page for page, _ in painted), min(picture for _, picture in painted)
    # A picture by itself has no icon, which the browser then looks for.
    assert [each for each in browser.complaints() if "favicon.ico" not in each] == []
    (shots / "first-paint.json").write_text(json.dumps({"page": best, "picture": bare}) + "\n")

    assert best - bare < 100, painted


def test_what_needs_attention_comes_first(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    opened(browser, platform)
    browser.wait_text("broken", "#attention")

    assert "You can act" in browser.text("#attention")
    assert "hello" in browser.text("#workloads")
    assert "of 100 instances" in browser.text("#quota")
    assert "datumctl-compute workloads" in browser.text("#workloads > .cli")
    assert "#" not in browser.url.removesuffix("#")  # the link is not left behind
    browser.screenshot(shots / "overview.png")


SILENT = """
const fetched = window.fetch;
window.fetch = (url, ...rest) =>
  `${url}`.includes("stream") ? new Promise(() => {}) : fetched(url, ...rest);
"""


def test_nothing_is_claimed_before_the_first_data(
    browser: Browser, platform: BrowserPlatform
) -> None:
    added = browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=SILENT)
    try:
        browser.open(platform.link())
        browser.wait_text("Connecting", ".top")
        for section in ("#attention", "#workloads", "#quota"):
            browser.wait_text("Reading", section)
        text = browser.text()
    finally:
        browser.cdp("Page.removeScriptToEvaluateOnNewDocument", **added)

    for claim in ("Nothing needs attention", "No workloads", "No quota"):
        assert claim not in text


def test_a_rollout_moves_from_city_to_city(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    opened(browser, platform)
    show(browser, "hello")
    platform.types("deploy", "hello", "--image=registry.example/acme/web:2", "--yes", "--no-wait")

    seen: list[dict[str, str]] = []

    def done() -> bool:
        phases = dict(browser.run(PHASES))
        if phases not in seen:
            seen.append(phases)
            if len(seen) == 3:
                browser.screenshot(shots / "rollout.png")
        moved = any(each["DFW"] != "Done" for each in seen)
        return moved and set(phases.values()) == {"Done"}

    browser.wait(done, "a rollout that is done in every city", 180)

    firsts = [
        next((at for at, each in enumerate(seen) if _is_open(each, city)), None)
        for city in ("DFW", "IAD", "LHR")
    ]
    assert None not in firsts, seen
    assert firsts == sorted(firsts, key=lambda at: at or 0), seen
    assert firsts[0] != firsts[2], seen
    waiting = [each for each in seen if each["LHR"] == "Waiting"]
    assert waiting, seen
    browser.wait_text("#2", "#history")


def _is_open(phases: dict[str, str], city: str) -> bool:
    """Whether the new template has reached the city, once the rollout has begun."""
    return phases["LHR"] in ("Waiting", "Updating", "Soaking") and phases[city] in (
        "Updating",
        "Soaking",
    )


def test_a_failed_image_shows_the_chain_and_who_can_act(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    opened(browser, platform)
    show(browser, "broken")

    text = browser.text("#why")
    for part in ("workload broken", "city LHR", "instance broken-default-lhr-0"):
        assert part in text
    assert "ImageUnavailable" in text
    assert "You can act: Deploy an image that exists" in text
    assert "deploy broken --image=IMAGE" in text
    browser.screenshot(shots / "why.png", whole=True)


def test_a_cell_that_is_away_shows_the_age_of_its_numbers(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    platform.types("local", "cell", "disconnect", "IAD")
    try:
        opened(browser, platform)
        show_away(browser)
        browser.screenshot(shots / "away.png", whole=True)
    finally:
        platform.types("local", "cell", "connect", "IAD")
    browser.wait_text("Nothing is wrong", "#why", 180)


def show_away(browser: Browser) -> None:
    browser.run("location.hash = '#/hello'")
    browser.wait_text("no answer from the cell for over", "#cities", 240)
    browser.wait_text("last report over", "#instances")
    label = "return document.querySelector('[data-city=IAD]').getAttribute('aria-label')"
    assert "no answer for" in browser.run(label)


def test_logs_follow(browser: Browser, platform: BrowserPlatform, shots: Path) -> None:
    opened(browser, platform)
    show(browser, "hello")
    browser.click("#logs button", "Follow logs")
    browser.wait_text("hello-default-dfw-0 | ", "#logs pre")
    before = browser.text("#logs pre").count("\n")

    platform.types("restart", "hello", "--city=DFW", "--yes", "--window=0s")

    browser.wait(lambda: browser.text("#logs pre").count("\n") > before, "more lines", 120)
    browser.screenshot(shots / "logs.png", whole=True)


def test_a_revision_is_undone_after_its_plan_was_shown(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    platform.deploys("shop", "--city=DFW", "--min=1")
    platform.types("rollout", "status", "shop", "--window=0s")
    platform.types("deploy", "shop", "--image=registry.example/acme/web:2", "--yes", "--window=0s")
    opened(browser, platform, "--allow-writes")
    browser.run("location.hash = '#/shop'")
    browser.wait_text("#2", "#history")
    browser.click("#history button", "Diff")
    browser.wait_text("Compared with #1", "#history")

    browser.click("#history button", "Undo to #1")
    browser.wait_text('Rolling "shop" back to revision #1', "dialog")

    assert "web:2" in browser.text("dialog")
    assert "rollout undo shop --to-revision 1" in browser.text("dialog")
    assert "web:2" in platform.types("status", "shop", "-o", "json")
    browser.screenshot(shots / "plan.png")
    browser.click("dialog button", "Undo now")
    browser.wait_text("Done.", "dialog")
    browser.press("Escape")
    browser.wait_text("rollback to #1", "#history")
    assert "web:1" in platform.types("status", "shop", "-o", "json")


def test_the_keyboard_is_enough(browser: Browser, platform: BrowserPlatform, shots: Path) -> None:
    opened(browser, platform, "--allow-writes")
    focused = "return document.activeElement.textContent"

    browser.press("j")
    assert "broken" in browser.run(focused)
    browser.press("j")
    browser.press("k")
    browser.screenshot(shots / "keyboard.png")
    browser.press("Enter")
    browser.wait_text("You can act", "#why")
    for _ in range(60):
        browser.press("Tab")
        if browser.run(focused) == "Stop …":
            break
    browser.press("Enter")
    browser.wait_text("Nothing has changed yet", "dialog")
    assert browser.run("return document.querySelector('dialog').contains(document.activeElement)")
    browser.press("Escape")
    browser.wait(lambda: browser.run("return !document.querySelector('dialog')"), "no dialog")
    browser.press("Escape")
    browser.wait_text("Needs attention", "#attention")
    reached = set()
    for _ in range(80):
        browser.press("Tab")
        reached.add(browser.run("return document.activeElement.getAttribute('data-city')"))
    assert {"DFW", "IAD", "LHR"} <= reached


def test_400_pixels_are_enough(browser: Browser, platform: BrowserPlatform, shots: Path) -> None:
    browser.resize(400, 800)
    opened(browser, platform, "--allow-writes")
    browser.wait_text("broken", "#attention")
    browser.screenshot(shots / "narrow-overview.png", whole=True)
    overflow = "return document.documentElement.scrollWidth - innerWidth"
    assert browser.run(overflow) <= 0
    assert smallest_text(browser) >= 13
    show(browser, "broken")
    browser.wait_text("#1", "#history")
    browser.screenshot(shots / "narrow-workload.png", whole=True)

    assert browser.run(overflow) <= 0
    assert smallest_text(browser) >= 13


def smallest_text(browser: Browser) -> float:
    """In pixels on the screen, text of the map included."""
    return float(
        browser.run("""
            const sizes = [];
            for (const e of document.querySelectorAll('body *')) {
              const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
              if (!own || e.closest('title, noscript, .skip')) continue;
              const svg = e.closest('svg');
              const scale = svg && svg !== e ? e.getScreenCTM().a : 1;
              sizes.push(parseFloat(getComputedStyle(e).fontSize) * scale);
            }
            return Math.min(...sizes);
        """)
    )


def test_dark(browser: Browser, platform: BrowserPlatform, shots: Path) -> None:
    browser.prefer("dark")
    opened(browser, platform, "--allow-writes")
    browser.wait_text("broken", "#attention")
    browser.screenshot(shots / "dark-overview.png")
    show(browser, "broken")
    browser.screenshot(shots / "dark-workload.png", whole=True)
    ground = "return getComputedStyle(document.body).backgroundColor"

    dark = browser.run(ground)
    browser.click("button", "Theme: system")
    browser.click("button", "Theme: dark")
    light = browser.run(ground)

    assert (dark, light) == ("rgb(14, 18, 24)", "rgb(245, 246, 248)")


HOSTILE = "<img/src=x/onerror=window.injected=1><script>window.injected=1</script>"


def test_text_of_others_never_becomes_code(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    """As an image, which log lines repeat, a variable, a message of a revision, and a message of
    a condition. A name or a label cannot hold it: the API refuses that."""
    where = ("--city=DFW", "--min=1", "--yes", "--no-wait")
    given = (f"--env=NOTE={HOSTILE}", f"--message={HOSTILE}")
    platform.applies("hostile", city="DFW", image=HOSTILE)
    platform.types("deploy", "hostile", *given, *where)
    platform.applies("odd", city="DFW", start_seconds=HOSTILE)
    for refused in (("deploy", HOSTILE, *where), ("deploy", "x", f"--label=a={HOSTILE}", *where)):
        with pytest.raises(AssertionError, match="img"):
            platform.types(*refused, "--image=a:1")
    opened(browser, platform, "--allow-writes")
    browser.wait_text(HOSTILE, "main")
    browser.run("location.hash = '#/hostile'")
    browser.click("#logs button", "Follow logs")
    browser.wait_text(HOSTILE, "#logs pre")
    browser.wait_text(HOSTILE, "#history")
    browser.click("#history button", "Diff")
    browser.wait_text("NOTE", "#history table")
    browser.screenshot(shots / "hostile.png", whole=True)
    browser.run("location.hash = '#/odd'")
    browser.wait_text(HOSTILE, "#why")

    assert browser.run("return window.injected === undefined")
    assert browser.run("return document.querySelectorAll('img, #app script').length") == 0


TRIES = (
    "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"injected=1\">')",
    "const s = document.createElement('script'); s.text = 'injected = 1'; document.body.append(s)",
    "const s = document.createElement('script'); s.src = 'data:,x=1'; document.body.append(s)",
    "const b = document.createElement('b'); b.setAttribute('onclick', 'injected = 1'); b.click()",
    "setTimeout('injected = 1', 0)",
    "new Function('injected = 1')()",
)


def test_the_policy_holds_against_what_gets_into_the_page(
    browser: Browser, platform: BrowserPlatform
) -> None:
    """As if some text had become a part of the page after all."""
    opened(browser, platform)

    # Later, because what a driver runs itself may use eval whatever the policy says.
    complaints: list[str] = []
    for each in TRIES:
        browser.run(f"setTimeout(() => {{ try {{ {each} }} catch {{}} }}, 0)")
        complaints += browser.wait(browser.complaints, f"a complaint about {each}")
    elsewhere = browser.run(
        "return fetch('http://127.0.0.1:1/').then(() => 'sent', (error) => error.message)"
    )

    assert browser.run("return window.injected === undefined")
    assert elsewhere == "Failed to fetch"
    complaints += browser.complaints()
    assert len(complaints) > len(TRIES)


def test_a_used_link_says_how_to_get_another(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    link = platform.link()
    browser.open(link)
    browser.wait_text("6/6 ready")
    browser.open("about:blank")
    browser.open(link)
    browser.wait_text("used already")

    assert "datumctl-compute console" in browser.text()
    browser.screenshot(shots / "used-link.png")
    # The browser itself reports the refused request.
    assert [each for each in browser.complaints() if "401" not in each] == []


def test_a_platform_that_stops_is_noticed_and_found_again(
    browser: Browser, platform: BrowserPlatform, shots: Path
) -> None:
    """Its sessions ended with it, so the page says how to open another."""
    opened(browser, platform)
    platform.types("local", "down")
    browser.wait_text("no connection; as of")
    browser.screenshot(shots / "no-connection.png")
    platform.types("local", "up", "--detach")
    platform.types("rollout", "status", "hello", "--window=0s")
    found = browser.complaints()

    assert [each for each in found if "net::" not in each] == []
