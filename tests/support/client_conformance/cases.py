"""The conformance suite of the client: every case, for every target.

A case is an ``async def`` of a ``case_*`` module that takes a :class:`ConformanceFixture`. It knows
neither which server it talks to nor over which transport. Where two servers disagree, the
Kubernetes API server is right.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import ModuleType

import pytest

from tests.support.client_conformance import (
    case_caller,
    case_create,
    case_delete,
    case_list,
    case_patch,
    case_status,
    case_update,
    case_watch,
)
from tests.support.client_conformance.fixture import ConformanceFixture

Case = Callable[[ConformanceFixture], Awaitable[None]]


def _cases_in(module: ModuleType) -> list[Case]:
    return [
        value
        for value in vars(module).values()
        if inspect.iscoroutinefunction(value)
        and value.__module__ == module.__name__
        and list(inspect.signature(value).parameters) == ["world"]
    ]


CASES: list[Case] = [
    case
    for module in (
        case_create,
        case_update,
        case_patch,
        case_status,
        case_delete,
        case_list,
        case_watch,
        case_caller,
    )
    for case in _cases_in(module)
]


def every_case_of(cases: list[Case], first: int = 0) -> pytest.MarkDecorator:
    """One test per case; ``first`` numbers them, and with that their namespaces, apart."""
    return pytest.mark.parametrize(
        ("number", "case"),
        list(enumerate(cases, first)),
        ids=[case.__name__ for case in cases],
    )


every_case = every_case_of(CASES)
