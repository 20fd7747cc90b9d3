"""``python -m bench``: measure against the budgets."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import budgets
from bench.budgets import Budget
from bench.plot import draw, rows_of
from bench.report import Result, render_details, render_table, to_json

MEASUREMENTS: dict[str, tuple[Budget, ...]] = {
    "bench.apiserver": (
        budgets.CREATES,
        budgets.GETS,
        budgets.PATCHES,
        budgets.APPLIES,
    ),
    "bench.watch_latency": (budgets.WATCH, budgets.WATCH_BESIDE),
    "bench.thousand": (budgets.THOUSAND, budgets.WRITES, budgets.ORDERED),
    "bench.status_latency": (budgets.REPORT,),
    "bench.commands": (budgets.HELP, budgets.LISTING),
    "bench.startup": (budgets.STARTUP,),
    "bench.under_load": (budgets.KUBECTL,),
    "bench.workloads": (budgets.WORKLOADS,),
    "bench.hostile": (budgets.HOSTILE,),
    "bench.runtime": (budgets.RECONCILES, budgets.IDLE, budgets.CACHED),
    "bench.containers": (budgets.STARTED, budgets.RESTING),
    "bench.router": (budgets.ROUTED,),
    "bench.ten_thousand": (budgets.GROWTH, budgets.MEMORY, budgets.FILE),
}
"""Each module and the budgets it measures in one go."""
NUMBERS = sorted({budget.number for measured in MEASUREMENTS.values() for budget in measured})
OUTPUT = Path("build", "bench.json")
PICTURE = Path("build", "bench.svg")


def main(argv: Sequence[str]) -> int:
    args = build_parser().parse_args(argv)
    if args.profile is not None:
        return _profile_thousand()
    results = measure(args.only)
    print(render_table(results))
    for result in results:
        if details := render_details(result):
            print(f"\n{result.budget.number}: {result.budget.what}\n{details}", file=sys.stderr)
        if result.error:
            print(f"\n{result.budget.number}: {result.error}", file=sys.stderr)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(to_json(results))
    PICTURE.write_text(draw(rows_of(results)))
    return 1 if any(result.value is None for result in results) else 0


def _profile_thousand() -> int:
    from bench import profiler, thousand

    print(profiler.profile(lambda start, end: thousand.run_thousand(on_start=start, on_end=end)))
    return 0


def build_parser() -> argparse.ArgumentParser:
    known = ", ".join(map(str, NUMBERS))
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure against the budgets. A missed floor is marked in the table; "
        "the exit code is 1 only when something could not be measured.",
    )
    parser.add_argument("--only", type=parse_numbers, default=NUMBERS, metavar="N,M", help=known)
    parser.add_argument(
        "--profile", type=int, choices=[3], help="show what costs most in that measurement"
    )
    return parser


def parse_numbers(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",") if word.strip().isdecimal()]
    if not numbers or len(numbers) != len(text.split(",")) or not set(numbers) <= set(NUMBERS):
        known = ", ".join(map(str, NUMBERS))
        raise argparse.ArgumentTypeError(f'"{text}": expected some of {known}')
    return numbers


def measure(numbers: Sequence[int]) -> list[Result]:
    results: list[Result] = []
    for module, measured in MEASUREMENTS.items():
        wanted = [budget for budget in measured if budget.number in numbers]
        if wanted:
            print(f"measuring {', '.join(budget.what for budget in wanted)} ...", file=sys.stderr)
            results += [result for result in _run(module, wanted) if result.budget in wanted]
    return sorted(results, key=lambda result: result.budget.number)


def _run(module: str, wanted: Sequence[Budget]) -> list[Result]:
    try:
        found: list[Result] = importlib.import_module(module).measure()
    except Exception as error:  # noqa: BLE001  # one that fails must not hide the others
        return [Result(budget, None, error=f"{type(error).__name__}: {error}") for budget in wanted]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
