"""Shows a URL: in the browser where a person sits before one, and always as text."""

from __future__ import annotations

import sys

from datum_compute.cli.context import Context

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""One of them is set where a browser can be opened, except on macOS."""


def open_in_browser(context: Context, url: str) -> None:
    if not _has_browser(context):
        return
    if not context.reach.open_url(url):
        context.say("No browser was found; open the URL yourself.")


def _has_browser(context: Context) -> bool:
    """Whether a person sits before it. Over ssh and in a pipe the URL is all there is."""
    if context.args.only_print or not context.streams.stdout.isatty():
        return False
    return sys.platform == "darwin" or any(context.env.variable(each) for each in DISPLAYS)
