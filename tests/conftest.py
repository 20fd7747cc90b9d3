"""Runs ``async def`` tests: on virtual time, or with ``realtime`` on the ordinary loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal

import pytest
from hypothesis import HealthCheck, settings

from datum_compute.testing import loop

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background processes with SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep modules and collected tests out of every garbage collection: they stay until the end,
    and to walk them took one second in thirteen."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if pyfuncitem.get_closest_marker("realtime"):
        asyncio.run(test)
    else:
        loop.run(test)
    return True
