"""The pictures of the docs that are drawn from the API and from measured numbers.

The life of an Instance names gates, conditions and reasons as the API does. The benchmarks are the
table of ``bench/README.md``.
"""

from __future__ import annotations

from pathlib import Path

from bench.plot import draw, measured_rows
from datum_compute.api.compute import constants, reasons

ROOT = Path(__file__).resolve().parent.parent
LIFE = Path("docs/images/instance.svg")
BENCHMARKS = Path("docs/images/benchmarks.svg")

STYLE = (
    ".box{fill:#f4f6f9;stroke:#8a93a1}.gate{fill:#fff6e0;stroke:#c99a2e}"
    ".done{fill:#eefaf1;stroke:#3c9a5f}.bad{fill:#fdecec;stroke:#c24a4a}"
    ".line{stroke:#5b6472;fill:none;stroke-width:1.4}.quiet{fill:#4d5666}.bold{font-weight:600}"
)


def rendered() -> dict[Path, str]:
    measured = measured_rows((ROOT / "bench" / "README.md").read_text(encoding="utf-8"))
    return {LIFE: _life(), BENCHMARKS: draw(measured)}


def _life() -> str:
    parts = [_box(20, 96, 150, 60, "box", "Created", "in its cell, by ordinal")]
    for row, gate in enumerate(reasons.GATES.values()):
        y = 24 + row * 76
        parts.append(_box(220, y, 240, 52, "gate", f"gate {gate.name}", _removal(gate)))
        parts.append(_arrow(f"M170 126C195 126 195 {y + 26} 220 {y + 26}"))
        parts.append(_arrow(f"M460 {y + 26}C485 {y + 26} 485 126 510 126"))
    below = 22 + len(reasons.GATES) * 76
    starts = f"{constants.CONDITION_PROGRAMMED}: {reasons.REASON_PROGRAMMING_IN_PROGRESS}"
    ended = "from any state, the highest ordinal first; quota is given back"
    parts += [
        _box(510, 96, 280, 60, "box", "Starting, once no gate is left", starts),
        _box(840, 96, 140, 60, "done", f"{constants.CONDITION_READY}=True", "Available"),
        _arrow("M790 126H840"),
        _box(
            510, below, 280, 60, "bad", "Failed", f"{reasons.REASON_IMAGE_UNAVAILABLE} and others"
        ),
        _arrow(f"M620 156V{below}"),
        _arrow(f"M670 {below}V156"),
        _text(680, below - 42, "tried again", "quiet"),
        _box(840, below, 140, 60, "box", "Stopped", reasons.REASON_SUSPENDED),
        _arrow(f"M890 156V{below}"),
        _arrow(f"M930 {below}V156"),
        _text(940, below - 42, "start", "quiet"),
        _text(856, below - 42, "stop", "quiet"),
        _box(20, below, 440, 60, "box", "Deleted", ended),
    ]
    title = "The life of an Instance"
    about = (
        "An Instance is created behind gates. The provider starts it when no gate is left; then it"
        " is ready, or failed and tried again. It can be stopped and started, and is deleted by"
        " its cell."
    )
    return _svg(1000, below + 84, title, about, parts)


def _removal(gate: reasons.Gate) -> str:
    """When the gate is removed."""
    if gate.condition:
        return f"with {gate.condition}=True"
    networks = gate.name == reasons.GATE_NETWORK
    return "when its networks are ready" if networks else "by the controller that decides it"


def _svg(width: int, height: int, title: str, about: str, parts: list[str]) -> str:
    body = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="t d">\n'
        f'  <title id="t">{title}</title>\n  <desc id="d">{about}</desc>\n'
        '  <defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#5b6472"/></marker>'
        f"<style>{STYLE}</style></defs>\n"
        f'  <rect width="{width}" height="{height}" fill="#fff"/>\n  {body}\n</svg>\n'
    )


def _box(x: int, y: int, width: int, height: int, kind: str, head: str, note: str) -> str:
    middle = x + width // 2
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
        f'<text x="{middle}" y="{y + height // 2 - 5}" text-anchor="middle" class="bold">{head}'
        f'</text><text x="{middle}" y="{y + height // 2 + 14}" text-anchor="middle"'
        f' class="quiet">{note}</text>'
    )


def _arrow(path: str) -> str:
    return f'<path class="line" d="{path}" marker-end="url(#a)"/>'


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{text}</text>'
