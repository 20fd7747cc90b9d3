"""Patterns mean what the real server's engine, Go's regexp, means by them."""

from __future__ import annotations

import pytest

from datum_compute.apiserver.schema import compiled
from datum_compute.apiserver.schema.patterns import Pattern
from tests.support.apiserver.growth import LINEAR, cpu_growth
from tests.support.apiserver.patterns.corpus import Verdicts, recorded


def test_every_pattern_of_the_corpus_means_what_go_means_by_it() -> None:
    texts, verdicts = recorded()
    assert len(verdicts) >= 200

    found: Verdicts = {}
    for pattern in verdicts:
        try:
            matches = Pattern(pattern).matches
        except ValueError:
            found[pattern] = None
        else:
            found[pattern] = "".join("1" if matches(text) else "0" for text in texts)

    assert found == verdicts


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)+$", "^(.*)*x$", "(a*)*(a*)*b"])
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    schema = compiled(
        {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    )

    def work(text: str) -> None:
        assert schema.process({"a": text}).errors

    assert cpu_growth(lambda size: "a" * size + "!", work, 400_000) < LINEAR


def test_a_refused_pattern_is_named_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"error parsing regexp: .*\(\?="):
        Pattern("a(?=b)")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        (r"^a\z", "a", True),
        ("b", "abc", True),
        (r"^\d+$", "٣", False),
        (r"^\w+$", "é", False),
        (r"^[[:alpha:]_]+$", "ab_", True),
        (r"^[[:alpha:]_]+$", "a1", False),
        (r"^[[:^digit:]]$", "a", True),
        (r"^[[:^digit:]]$", "1", False),
        (r"^[]a]+$", "]a", True),
        (r"^[^]]+$", "]", False),
        (r"^[a$]+$", "a$", True),
        (r"^[[]+$", "[[", True),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E$", "axb", False),
        (r"\$", "a$", True),
        ("(?i)^abc$", "ABC", True),
        ("(?m)^b$", "a\nb\nc", True),
    ],
)
def test_a_pattern_matches_as_in_re2(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).matches(text) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "[[:nothing:]]",
        "a(?=b)",
        "(?!a)b",
        "(?<=a)b",
        r"(a)\1",
        "(?P<n>a)(?P=n)",
        "a**",
        r"a\Z",
    ],
)
def test_a_pattern_that_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        Pattern(pattern)
