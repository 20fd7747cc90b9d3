"""The list of texts is current, so that a change of wording is read as one."""

from __future__ import annotations

import re

from tests.support.cli.texts import GOLDEN, texts

RETIRED = re.compile(
    r"\b(nobody|somebody|anybody|everybody|whoever|centre|anew|tenant|looked at)\b", re.IGNORECASE
)


def test_the_list_of_texts_is_current() -> None:
    agreed = GOLDEN.read_text(encoding="utf-8")

    assert texts() == agreed, "if it is meant: python -m tests.support.cli.texts"


def test_no_text_uses_a_retired_word() -> None:
    assert not RETIRED.findall(GOLDEN.read_text(encoding="utf-8"))
