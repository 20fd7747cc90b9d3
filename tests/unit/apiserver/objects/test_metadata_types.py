"""Metadata of the wrong type is refused with the place in it."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.apiserver.errors import NotDecoded
from datum_compute.apiserver.objects.object_meta import check_metadata


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"labels": {"a": "b", "c": 1}}, 'metadata.labels[c]: expected "str", got "int"'),
        ({"annotations": {"n": [1]}}, 'metadata.annotations[n]: expected "str", got "list"'),
        ({"labels": 1}, 'Expected "object | null", got "int" - at "metadata.labels"'),
        ({"name": 1}, 'Expected "str | null", got "int" - at "metadata.name"'),
        ([], 'Expected "object", got "array"'),
    ],
)
def test_the_place_of_a_wrong_type_is_named(metadata: Any, message: str) -> None:
    with pytest.raises(NotDecoded) as refusal:
        check_metadata({"metadata": metadata})

    assert str(refusal.value) == f"the object's metadata cannot be read: {message}"
