"""The product uses the outside world only through ``env``, and the guard finds violations."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import datum_compute
from tests.support.guards.environment import violations_below, violations_in

PACKAGE = Path(datum_compute.__file__).parent


def test_the_product_reaches_the_world_only_through_the_environment() -> None:
    found = violations_below(PACKAGE)

    assert not found, "\n" + "\n".join(map(str, found))


FORBIDDEN = [
    "import time\n",
    "from time import monotonic\n",
    "import time as clock\n",
    "def later():\n    import time\n    return time.time()\n",
    "import random\n",
    "from random import Random\n",
    "import uuid\n",
    "import secrets\n",
    "import threading\n",
    "from concurrent.futures import ThreadPoolExecutor\n",
    "import subprocess\n",
    "import datetime\nx = datetime.datetime.now(datetime.UTC)\n",
    "from datetime import datetime\nx = datetime.now()\n",
    "from datetime import datetime as dt\nx = dt.utcnow()\n",
    "import datetime as d\nx = d.date.today()\n",
    "import os\nx = os.environ['HOME']\n",
    "import os as system\nx = system.getenv('HOME')\n",
    "from os import environ\n",
    "import os\nx = os.urandom(8)\n",
    "import asyncio\nasync def f():\n    await asyncio.to_thread(print)\n",
    "from asyncio import to_thread\n",
    "async def f(loop):\n    await loop.run_in_executor(None, print)\n",
]


@pytest.mark.parametrize("source", FORBIDDEN)
def test_each_forbidden_use_is_found(source: str) -> None:
    assert violations_in(source, "planted.py")


def test_a_forbidden_use_is_found_in_every_package(tmp_path: Path) -> None:
    package = tmp_path / "datum_compute"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("*.pyc"))
    for number, source in enumerate(FORBIDDEN):
        (package / "decisions" / f"planted_{number}.py").write_text(source)

    found = {violation.path for violation in violations_below(package)}

    assert found == {f"decisions/planted_{number}.py" for number in range(len(FORBIDDEN))}


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)\n",
        "import asyncio\nx = asyncio.get_running_loop().time()\n",
        "from datetime import datetime, timedelta\nx = datetime.fromisoformat('2026-01-01')\n",
        "import os\nx = os.path.join('a', 'b')\n",
    ],
)
def test_uses_of_the_event_loop_are_allowed(source: str) -> None:
    assert not violations_in(source, "planted.py")
