"""Validation of CustomResourceDefinitions: names, versions, columns and schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from datum_compute.api import fields, name_patterns
from datum_compute.api.fields import FieldError, FieldPath
from datum_compute.apiserver.kinds import jsonpath
from datum_compute.apiserver.kinds.access_kinds import NAMES
from datum_compute.apiserver.schema import keywords, structural
from datum_compute.apiserver.schema.outcome import SchemaOutcome

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

_NAME_RULE = 'must be spec.names.plural+"."+spec.group'
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_MAX_SELECTABLE = 8
_MAX_WARNING = 256
"""Limits of the real server."""


def validate_definition(crd: Mapping[str, Any]) -> list[FieldError]:
    """All errors of a definition, each at its path."""
    spec = crd.get("spec") or {}
    # Names first: without them the schemas cannot be checked.
    errors = list(_shape_faults(crd, spec))
    if errors:
        return errors
    errors = [*_name_faults(crd, spec), *_version_faults(spec), *_option_faults(spec)]
    for version, path in places(spec, "schema"):
        if (schema := schema_of(version)) is not None:
            errors += structural.validate_root(schema, path.child("openAPIV3Schema"))
    for version, path in places(spec, "subresources"):
        scale = (version.get("subresources") or {}).get("scale")
        errors += _scale_faults(scale, path.child("scale"))
    for version, path in places(spec, "selectableFields"):
        selectable = version.get("selectableFields") or ()
        errors += _selectable_faults(selectable, schema_of(version), path)
    for version, path in places(spec, "additionalPrinterColumns"):
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            errors += _column_faults(column, path.index(number))
    return errors


def places(spec: Mapping[str, Any], field: str) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """The versions whose ``field`` is to be checked, and where its faults are. As in the real
    server one that is the same in all versions is checked once, as a field of ``spec``."""
    first, *others = spec["versions"]
    if all(version.get(field) == first.get(field) for version in others):
        yield first, FieldPath.of("spec", "validation" if field == "schema" else field)
        return
    for index, version in enumerate(spec["versions"]):
        yield version, FieldPath.of("spec", "versions").index(index).child(field)


def schema_of(version: Mapping[str, Any]) -> Mapping[str, Any] | None:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema if isinstance(schema, dict) else None


def set_defaults(crd: dict[str, Any]) -> None:
    """Fill in the names that follow from the kind, and how versions are converted."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    spec = crd["spec"] = {**spec}
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]
    if isinstance(versions := spec.get("versions"), list):
        spec["versions"] = [
            {"served": False, "storage": False, **each} if isinstance(each, dict) else each
            for each in versions
        ]
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(kind := names.get("kind"), str) and kind:
        defaults = {"singular": kind.lower(), "listKind": f"{kind}List"}
        given = {key: value for key, value in names.items() if value}
        spec["names"] = {**names, **defaults, **given}


def prune_schemas(crd: dict[str, Any], out: SchemaOutcome) -> None:
    """Leave out of the schemas what the real server does not store. Those of an object that shares
    parts with another are replaced, not changed."""
    spec = crd.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(versions, list):
        return
    kept: list[Any] = []
    for index, version in enumerate(versions):
        if isinstance(version, dict) and (schema := schema_of(version)) is not None:
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            schema = keywords.pruned(schema, path, out)
            version = {**version, "schema": {**version["schema"], "openAPIV3Schema": schema}}
        kept.append(version)
    crd["spec"] = {**spec, "versions": kept}


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


def _shape_faults(crd: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """The fields and types that the other checks rely on."""
    path = FieldPath.of("spec")
    yield from _text_faults(spec, "group", path)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield _unsupported(path.child("scope"), spec.get("scope"), ("Cluster", "Namespaced"))
    names = spec.get("names") or {}
    # Without a kind those that follow from it are missing as well.
    derived = () if names.get("kind") else ("listKind", "singular")
    for name in ("plural", "kind", *derived):
        yield from _text_faults(names, name, path.child("names"))
    if not names.get("plural") or not spec.get("group"):
        name = (crd.get("metadata") or {}).get("name")
        yield fields.invalid("metadata.name", name, _NAME_RULE)
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
        yield fields.invalid("metadata.name", name, _NAME_RULE)
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
            if index == 0:
                yield fields.invalid("spec.version", name, _LABEL_RULE)
        if name in seen:
            yield fields.invalid(path, name, "must contain unique version names")
        seen.add(name)
        if schema_of(version) is None:
            here = path.index(index).child("schema", "openAPIV3Schema")
            yield fields.required(here, "schemas are required")
    if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
        yield from _no_storage([version["name"] for version in spec["versions"]])


_ONE_STORAGE = "must have exactly one version marked as storage version"


def _no_storage(versions: Any) -> Iterator[FieldError]:
    yield fields.invalid("spec.versions", versions, _ONE_STORAGE)
    detail = "must have at least one stored version"
    yield fields.invalid("status.storedVersions", [], detail)


def _option_faults(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Options that are not served: what is accepted is done."""
    conversion, path = spec.get("conversion"), FieldPath.of("spec", "conversion")
    conversion = {"strategy": "None"} if conversion is None else conversion
    if (strategy := conversion.get("strategy")) != "None":
        yield _unsupported(path.child("strategy"), strategy, ("None",))
    webhook = conversion.get("webhook")
    for name, shown in _OF_WEBHOOKS.items():
        if isinstance(webhook, dict) and webhook.get(name) and strategy == "None":
            detail = "should not be set when strategy is not set to Webhook"
            yield fields.forbidden(path.child(shown), detail)
    if spec.get("preserveUnknownFields"):
        detail = "must be false in order to use defaults in the schema"
        yield fields.invalid("spec.preserveUnknownFields", True, detail)
    for index, version in enumerate(spec["versions"]):
        here = FieldPath.of("spec", "versions").index(index).child("deprecationWarning")
        if detail := _warning_fault(version):
            yield fields.invalid(here, version["deprecationWarning"], detail)


_OF_WEBHOOKS = {
    "clientConfig": "webhookClientConfig",
    "conversionReviewVersions": "conversionReviewVersions",
}


def _warning_fault(version: Mapping[str, Any]) -> str:
    text = version.get("deprecationWarning")
    if text is None:
        return ""
    if not version.get("deprecated"):
        return "can only be set for deprecated versions"
    if not text:
        return "must not be an empty string"
    if len(text) > _MAX_WARNING:
        return f"must be <= {_MAX_WARNING} characters long, was {len(text)}"
    for position, character in enumerate(text):
        if not character.isprintable():
            found = f"non-printable character found at index {position}"
            return f"must only contain printable UTF-8 characters; {found}"
    return ""


def _scale_faults(scale: Mapping[str, Any] | None, path: FieldPath) -> Iterator[FieldError]:
    if scale is None:
        return
    for name, roots in (
        ("specReplicasPath", ("spec",)),
        ("statusReplicasPath", ("status",)),
        ("labelSelectorPath", ("spec", "status")),
    ):
        text = scale.get(name)
        if not text and name == "labelSelectorPath":
            continue
        faults = list(_path_faults(text, path.child(name)))
        yield from faults
        if not faults and not str(text).startswith(tuple(f".{root}." for root in roots)):
            under = " or ".join(f".{root}" for root in roots)
            detail = f"should be a json path under {'either ' if len(roots) > 1 else ''}{under}"
            yield fields.invalid(path.child(name), text, detail)


def _selectable_faults(
    selectable: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None, path: FieldPath
) -> Iterator[FieldError]:
    if selectable and schema is None:
        yield fields.invalid(path, list(selectable), "may only be set with a schema")
        return
    seen: set[str] = set()
    for index, field in enumerate(selectable):
        here, text = path.index(index).child("jsonPath"), field.get("jsonPath")
        if not text:
            yield fields.required(here)
            continue
        found, fault = _field_schema(text, schema or {})
        if fault:
            yield fields.invalid(here, text, f"is an invalid path: {fault}")
            continue
        if text.startswith(".metadata."):
            yield fields.invalid(here, text, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            yield fields.invalid(here, text, _SELECTABLE_RULE)
        if text in seen:
            yield fields.duplicate(here, text)
        seen.add(text)
    if len(seen) > _MAX_SELECTABLE:
        yield fields.too_many(path, len(seen), _MAX_SELECTABLE)


_SELECTABLE_RULE = (
    "must point to a field of type string, boolean or integer."
    " Enum string fields and strings with formats are allowed."
)


def _field_schema(text: str, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The schema at a simple path, or why it is none."""
    if not text.startswith("."):
        return {}, "must be a simple json path starting with ."
    if "[" in text:
        return {}, "array notation is not allowed"
    for name in text[1:].split("."):
        known = schema.get("properties") or {}
        if name not in known:
            return {}, "does not refer to a valid field"
        schema = known[name]
    return schema, ""


def _column_faults(column: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    if not column.get("name"):
        yield fields.required(path.child("name"))
    if not column.get("type"):
        yield fields.required(path.child("type"), _one_of(_COLUMN_TYPES))
    elif column["type"] not in _COLUMN_TYPES:
        yield fields.invalid(path.child("type"), column["type"], _one_of(_COLUMN_TYPES))
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        yield fields.invalid(path.child("format"), column["format"], _one_of(_COLUMN_FORMATS))
    yield from _path_faults(column.get("jsonPath"), path.child("JSONPath"))


def _one_of(values: Iterable[str]) -> str:
    return f"must be one of {','.join(values)}"


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
