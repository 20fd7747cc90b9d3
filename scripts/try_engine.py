"""Tells whether a container engine can start a container here: exit code 0 if it can."""

from __future__ import annotations

import asyncio
import sys

from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import host


def main() -> int:
    found = asyncio.run(host.probe(SystemEnvironment(), sys.argv[1]))
    print(found.text, file=sys.stderr)
    return 0 if found.usable else 1


if __name__ == "__main__":
    sys.exit(main())
