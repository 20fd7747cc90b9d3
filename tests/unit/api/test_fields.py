"""Field paths and errors read as Kubernetes writes them."""

from __future__ import annotations

import pytest

from datum_compute.api import fields
from datum_compute.api.fields import FieldError, FieldErrorType, FieldPath

CITIES = FieldPath.of("spec", "placements").index(1).child("cityCodes")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (FieldPath(), "<nil>"),
        (FieldPath.of("spec"), "spec"),
        (FieldPath().child("spec", "image"), "spec.image"),
        (CITIES.index(0), "spec.placements[1].cityCodes[0]"),
        (
            FieldPath.of("metadata", "labels").key("app.kubernetes.io/name"),
            "metadata.labels[app.kubernetes.io/name]",
        ),
    ],
)
def test_a_path_prints_as_users_write_it(path: FieldPath, text: str) -> None:
    assert str(path) == text


def test_a_path_is_not_changed_by_its_children() -> None:
    parent = FieldPath.of("spec")

    parent.child("image")
    parent.index(3)

    assert str(parent) == "spec"


@pytest.mark.parametrize(
    ("error", "text", "reason"),
    [
        (
            fields.not_supported(CITIES.index(0), "XYZ", ["DFW", "LHR"]),
            'spec.placements[1].cityCodes[0]: Unsupported value: "XYZ": '
            'supported values: "DFW", "LHR"',
            "FieldValueNotSupported",
        ),
        (fields.required("spec.image"), "spec.image: Required value", "FieldValueRequired"),
        (
            fields.required("spec.image", "must not be empty"),
            "spec.image: Required value: must not be empty",
            "FieldValueRequired",
        ),
        (
            fields.invalid("spec.n", 0, "must be positive"),
            "spec.n: Invalid value: 0: must be positive",
            "FieldValueInvalid",
        ),
        (
            fields.invalid("spec.on", True, "must be off"),
            "spec.on: Invalid value: true: must be off",
            "FieldValueInvalid",
        ),
        (
            fields.type_invalid("spec.n", "string", "must be a number"),
            'spec.n: Invalid value: "string": must be a number',
            "FieldValueTypeInvalid",
        ),
        (
            fields.duplicate("spec.ports[1]", {"name": "http"}),
            'spec.ports[1]: Duplicate value: {"name":"http"}',
            "FieldValueDuplicate",
        ),
        (
            fields.forbidden("spec.name", "field is immutable"),
            "spec.name: Forbidden: field is immutable",
            "FieldValueForbidden",
        ),
        (
            fields.too_long("spec.name", "x" * 70, 63),
            "spec.name: Too long: may not be more than 63 bytes",
            "FieldValueTooLong",
        ),
        (
            fields.too_many("spec.items", 3, 1),
            "spec.items: Too many: 3: must have at most 1 item",
            "FieldValueTooMany",
        ),
        (
            fields.not_found("spec.network", "default"),
            'spec.network: Not found: "default"',
            "FieldValueNotFound",
        ),
    ],
)
def test_a_field_error_has_the_text_of_kubernetes(
    error: FieldError, text: str, reason: str
) -> None:
    assert str(error) == text
    assert error.cause_reason == reason
    assert f"{error.path}: {error.message}" == text


def test_every_type_of_field_error_has_its_own_message_and_reason() -> None:
    reasons = [each.reason for each in FieldErrorType]

    assert len(set(reasons)) == len(reasons)
    assert all(each.summary for each in FieldErrorType)


def test_several_field_errors_become_one_message() -> None:
    one, two = fields.required("spec.a"), fields.required("spec.b")

    assert fields.aggregate([one]) == "spec.a: Required value"
    assert fields.aggregate([one, two]) == "[spec.a: Required value, spec.b: Required value]"
    assert fields.aggregate([one, one]) == "spec.a: Required value"
