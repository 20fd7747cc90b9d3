"""Tuples with names that are made without ``typing`` are as good as its own."""

from __future__ import annotations

import pickle
import typing
from collections.abc import Callable

import pytest

from datum_compute.api import typed


class Ours(typed.NamedTuple):
    """Says what it is."""

    first: str
    second: int = 2
    third: str = ""
    """What comes last."""

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"

    def __str__(self) -> str:
        return super().__repr__().upper()


class Theirs(typing.NamedTuple):
    """Says what it is."""

    first: str
    second: int = 2
    third: str = ""
    """What comes last."""

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


@pytest.mark.parametrize(
    "ask",
    [
        lambda kind: tuple(kind("a")),
        lambda kind: tuple(kind("a", third="c")),
        lambda kind: kind("a", 3).both,
        lambda kind: kind(first="a")._replace(second=5)._asdict(),
        lambda kind: repr(kind("a")).partition("(")[2],
        lambda kind: kind("a") == kind("a", 2, ""),
        lambda kind: {kind("a"): 1}[kind("a")],
        lambda kind: kind("a") < kind("b"),
        lambda kind: kind._fields,
        lambda kind: kind._field_defaults,
        lambda kind: kind.__doc__,
        lambda kind: kind.__module__,
        lambda kind: isinstance(kind("a"), tuple),
        lambda kind: hasattr(kind("a"), "__dict__"),
        lambda kind: type(pickle.loads(pickle.dumps(kind("a")))) is kind,
    ],
)
def test_it_does_what_a_named_tuple_does(ask: Callable[[typing.Any], object]) -> None:
    assert ask(Ours) == ask(Theirs)


def test_it_cannot_be_changed_and_wants_what_has_no_default() -> None:
    with pytest.raises(AttributeError):
        Ours("a").first = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Ours("a").fourth = "b"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Ours()  # type: ignore[call-arg]


def test_its_methods_know_their_class() -> None:
    assert str(Ours("a")) == "OURS(FIRST='A', SECOND=2, THIRD='')"
