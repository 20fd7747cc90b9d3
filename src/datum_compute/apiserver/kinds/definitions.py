"""Validation of CustomResourceDefinitions: names, versions, columns and schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, Final

from datum_compute.api import fields, name_patterns
from datum_compute.api.fields import FieldError, FieldPath
from datum_compute.apiserver.kinds import jsonpath
from datum_compute.apiserver.kinds.access_kinds import NAMES
from datum_compute.apiserver.schema import structural

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_SUBDOMAIN = re.compile(name_patterns.DNS_SUBDOMAIN).fullmatch
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
    "an alphabetic character, and end with an alphanumeric character"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character"
)
APPROVED = "api-approved.kubernetes.io"
BUILTIN_NAMES: Final = {
    "apiextensions.k8s.io": ("customresourcedefinitions", "CustomResourceDefinition"),
    "coordination.k8s.io": ("leases", "Lease"),
    "events.k8s.io": ("events", "Event"),
    **NAMES,
    "admissionregistration.k8s.io": (
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
}
"""Plurals and kinds by group that every plane serves without a definition. The core group has no
dot, so that no definition can be in it."""

_COLUMN_TYPES = ("integer", "number", "string", "boolean", "date")


def validate_definition(crd: Mapping[str, Any]) -> list[FieldError]:
    """All errors of a definition, each at its path."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return [fields.required("spec")]
    # Names first: without them the schemas cannot be checked.
    errors = list(_shape_faults(spec))
    if errors:
        return errors
    errors = [*_name_faults(crd, spec), *_version_faults(spec), *_option_faults(spec)]
    for index, version in enumerate(spec["versions"]):
        path = FieldPath.of("spec", "versions").index(index)
        errors += _served_faults(version, path)
        # The real server names the columns of a single version without the version.
        columns = FieldPath.of("spec") if len(spec["versions"]) == 1 else path
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            errors += _column_faults(
                column, columns.child("additionalPrinterColumns").index(number)
            )
    return errors


def set_defaults(crd: dict[str, Any]) -> None:
    """Fill in the names that follow from the kind, and how versions are converted."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    spec = crd["spec"] = {**spec}
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(kind := names.get("kind"), str) and kind:
        defaults = {"singular": kind.lower(), "listKind": f"{kind}List"}
        given = {key: value for key, value in names.items() if value}
        spec["names"] = {**names, **defaults, **given}


def validate_group(crd: Mapping[str, Any]) -> list[FieldError]:
    """Whether a new definition may be in its group: names that the server itself serves are taken,
    and the groups of Kubernetes need a note of approval, as in the real server."""
    spec = crd.get("spec") or {}
    group, names = spec.get("group"), spec.get("names") or {}
    taken = BUILTIN_NAMES.get(str(group), ())
    errors = [
        fields.forbidden(f"spec.names.{key}", f'"{names[key]}" is served by the server itself')
        for key in ("plural", "kind")
        if names.get(key) in taken
    ]
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return errors
    path = FieldPath.of("metadata", "annotations").key(APPROVED)
    approval = (crd["metadata"].get("annotations") or {}).get(APPROVED, "")
    if not approval:
        detail = f'protected groups must have approval annotation "{APPROVED}"'
        errors.append(fields.required(path, detail))
    elif not approval.startswith(("https://", "http://", "unapproved")):
        detail = 'must be a URL, or start with "unapproved"'
        errors.append(fields.invalid(path, approval, detail))
    return errors


def validate_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    """What stored objects depend on stays as it is."""
    errors = []
    for path in (("spec", "group"), ("spec", "scope"), ("spec", "names", "kind")):
        before, now = (reduce(_field, path, crd) for crd in (old, new))
        if before != now:
            errors.append(fields.invalid(FieldPath.of(*path), now, "field is immutable"))
    kept = {version.get("name") for version in new["spec"]["versions"]}
    for index, version in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if version not in kept:
            path_of = FieldPath.of("status", "storedVersions").index(index)
            detail = (
                f"missing from spec.versions; {version} was previously a storage version, and must"
                " remain in spec.versions until a storage migration ensures no data remains"
                f" persisted in {version} and removes {version} from status.storedVersions"
            )
            errors.append(fields.invalid(path_of, version, detail))
    return errors


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _shape_faults(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """The fields and types that the other checks rely on."""
    path = FieldPath.of("spec")
    yield from _text_faults(spec, "group", path)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield _unsupported(path.child("scope"), spec.get("scope"), ("Cluster", "Namespaced"))
    names = spec.get("names")
    if isinstance(names, dict):
        # Without a kind those that follow from it are missing as well.
        derived = () if names.get("kind") else ("listKind", "singular")
        for name in ("plural", "kind", *derived):
            yield from _text_faults(names, name, path.child("names"))
    else:
        yield fields.required(path.child("names"))
    versions = spec.get("versions")
    if not isinstance(versions, list) or not versions:
        yield from _no_storage(versions or [])
        return
    for index, version in enumerate(versions):
        here = path.child("versions").index(index)
        if not isinstance(version, dict):
            yield fields.type_invalid(here, version, "must be an object")
            continue
        yield from _text_faults(version, "name", here)
        for name in ("served", "storage"):
            if not isinstance(version.get(name), bool):
                yield fields.required(here.child(name))


def _text_faults(holder: Mapping[str, Any], name: str, path: FieldPath) -> Iterator[FieldError]:
    value = holder.get(name)
    if value is None or value == "":
        yield fields.required(path.child(name))
    elif not isinstance(value, str):
        yield fields.type_invalid(path.child(name), value, "must be a string")


def _unsupported(path: FieldPath, value: Any, allowed: tuple[str, ...]) -> FieldError:
    return fields.not_supported(path, value, allowed) if value else fields.required(path)


def _name_faults(crd: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldError]:
    names, path = spec["names"], FieldPath.of("spec", "names")
    wanted = f"{names['plural']}.{spec['group']}"
    name = (crd.get("metadata") or {}).get("name")
    if name != wanted:
        yield fields.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not _SUBDOMAIN(spec["group"]):
        yield fields.invalid("spec.group", spec["group"], _SUBDOMAIN_RULE)
    elif "." not in spec["group"]:
        yield fields.invalid(
            "spec.group", spec["group"], "should be a domain with at least one dot"
        )
    singular = names.get("singular") or names["kind"].lower()
    kind_names = (
        ("plural", names["plural"]),
        ("singular", singular),
        ("kind", names["kind"].lower()),
        ("listKind", (names.get("listKind") or "x").lower()),
    )
    for field, value in kind_names:
        if not _LABEL(value):
            yield fields.invalid(path.child(field), value, _LABEL_RULE)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            if not _LABEL(value):
                yield fields.invalid(path.child(field).index(index), value, _LABEL_RULE)
    if names.get("listKind") == names["kind"]:
        yield fields.invalid(
            path.child("listKind"), names["kind"], "kind and listKind may not be the same"
        )


def _version_faults(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    path = FieldPath.of("spec", "versions")
    seen: set[str] = set()
    for index, version in enumerate(spec["versions"]):
        name = version["name"]
        if not _LABEL(name):
            yield fields.invalid(path.index(index).child("name"), name, _LABEL_RULE)
        if name in seen:
            yield fields.invalid(path, name, "must contain unique version names")
        seen.add(name)
    stored = sum(version["storage"] for version in spec["versions"])
    names = [version["name"] for version in spec["versions"]]
    if not stored:
        yield from _no_storage(names)
    elif stored > 1:
        yield fields.invalid(path, names, _ONE_STORAGE)


_ONE_STORAGE = "must have exactly one version marked as storage version"


def _no_storage(versions: Any) -> Iterator[FieldError]:
    yield fields.invalid("spec.versions", versions, _ONE_STORAGE)
    detail = "must have at least one stored version"
    yield fields.invalid("status.storedVersions", [], detail)


def _option_faults(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Options that are not served: what is accepted is done."""
    conversion = spec.get("conversion") or {}
    if (strategy := conversion.get("strategy")) not in (None, "None"):
        yield fields.not_supported("spec.conversion.strategy", strategy, ["None"])
    if spec.get("preserveUnknownFields"):
        detail = "must be false in order to use defaults in the schema"
        yield fields.invalid("spec.preserveUnknownFields", True, detail)
    for index, version in enumerate(spec["versions"]):
        if version.get("deprecationWarning") and not version.get("deprecated"):
            path = FieldPath.of("spec", "versions").index(index).child("deprecationWarning")
            detail = "can only be set for deprecated versions"
            yield fields.invalid(path, version["deprecationWarning"], detail)


def _served_faults(version: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    schema_path = path.child("schema", "openAPIV3Schema")
    if not isinstance(schema, dict):
        yield fields.required(schema_path, "schemas are required")
    else:
        yield from structural.validate_root(schema, schema_path)
    for index, field in enumerate(version.get("selectableFields") or ()):
        here = path.child("selectableFields").index(index).child("jsonPath")
        yield from _path_faults(field.get("jsonPath"), here)


def _column_faults(column: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    if not column.get("name"):
        yield fields.required(path.child("name"))
    if column.get("type") not in _COLUMN_TYPES:
        detail = f"must be one of {','.join(sorted(_COLUMN_TYPES))}"
        yield fields.invalid(path.child("type"), column.get("type"), detail)
    yield from _path_faults(column.get("jsonPath"), path.child("JSONPath"))


def _path_faults(text: Any, path: FieldPath) -> Iterator[FieldError]:
    if not text or not isinstance(text, str):
        yield fields.required(path)
        return
    if not text.startswith("."):
        yield fields.invalid(path, text, "must be a simple json path starting with .")
        return
    try:
        jsonpath.compile_path(text)
    except ValueError as error:
        yield fields.invalid(path, text, str(error))
