"""Patterns mean what RE2 means by them."""

from __future__ import annotations

import pytest

from datum_compute.apiserver.schema.patterns import compile_pattern


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
    assert bool(compile_pattern(pattern).search(text)) is found


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
        compile_pattern(pattern)
