"""The kinds about rights: roles and bindings, which are stored, and reviews, which are answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from datum_compute.api import fields, name_patterns
from datum_compute.api.fields import MAX_ERRORS, FieldError
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.kinds.columns import BUILTIN_AGE, NAME, TableColumn, created_at
from datum_compute.apiserver.kinds.served_kind import VERBS, ServedKind
from datum_compute.apiserver.schema import compiled

RBAC = "rbac.authorization.k8s.io"
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"

REVIEWS: Mapping[tuple[str, str, str], str] = {
    (group, "v1", f"{kind.lower()}s"): kind
    for group, kind in (
        (AUTHENTICATION, "SelfSubjectReview"),
        (AUTHENTICATION, "TokenReview"),
        (AUTHORIZATION, "SelfSubjectAccessReview"),
        (AUTHORIZATION, "SelfSubjectRulesReview"),
        (AUTHORIZATION, "SubjectAccessReview"),
        (AUTHORIZATION, "LocalSubjectAccessReview"),
    )
}
"""Group, version and plural to kind."""


_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")

_KINDS = [(RBAC, kind) for kind in (*_ROLES, *_BINDINGS)]
_KINDS += [(group, kind) for (group, _, _), kind in REVIEWS.items()]
NAMES: Mapping[str, tuple[str, ...]] = {
    group: tuple(name for of, kind in _KINDS if of == group for name in (f"{kind.lower()}s", kind))
    for group in (AUTHENTICATION, AUTHORIZATION, RBAC)
}
"""The plurals and kinds of each group."""


def access_kinds() -> list[ServedKind]:
    roles = [_stored(kind, _role_schema(kind), _ROLE_COLUMNS) for kind in _ROLES]
    bindings = [_stored(kind, _binding_schema(kind), _BINDING_COLUMNS) for kind in _BINDINGS]
    return [*roles, *bindings, *(_review(*place, kind) for place, kind in REVIEWS.items())]


def _review(group: str, version: str, plural: str, kind: str) -> ServedKind:
    local = kind.startswith("Local")
    schema = _object("What is asked, and the answer.", spec=_ANY, status=_ANY)
    resource = Resource(group, version, plural, kind, namespaced=local)
    return _kind(resource, schema, (NAME,), ("create",))


def _stored(kind: str, schema: dict[str, Any], columns: tuple[TableColumn, ...]) -> ServedKind:
    namespaced = not kind.startswith("Cluster")
    resource = Resource(RBAC, "v1", f"{kind.lower()}s", kind, namespaced)
    return _kind(resource, schema, (NAME, *columns), VERBS)


def _kind(
    resource: Resource,
    schema: dict[str, Any],
    columns: tuple[TableColumn, ...],
    verbs: tuple[str, ...],
) -> ServedKind:
    return ServedKind(
        resource=resource,
        list_kind=f"{resource.kind}List",
        singular=resource.kind.lower(),
        short_names=(),
        categories=(),
        columns=columns,
        has_status=False,
        schema=compiled(schema),
        verbs=verbs,
        builtin=True,
        selectable_fields=(),
        created_by_update="update" in verbs,
    )


def _object(description: str, /, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": properties}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": {"type": "string"}}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _role_schema(kind: str) -> dict[str, Any]:
    rule = _object(
        "Verbs on resources, or on paths that are none.",
        verbs=_texts("The verbs; * for all."),
        apiGroups=_texts("The groups of the resources; empty for the core group."),
        resources=_texts("The resources, with subresources as pods/log."),
        resourceNames=_texts("The names of objects; all without them."),
        nonResourceURLs=_texts("Paths; * at the end for all that begin so."),
    )
    rules = {"type": "array", "description": "What the role allows.", "items": rule}
    where = "in its namespace" if kind == "Role" else "wherever it is bound"
    return _object(f"Rights {where}.", rules=rules)


def _binding_schema(kind: str) -> dict[str, Any]:
    subject = _object(
        "Who gets the role.",
        kind=_text("User, Group or ServiceAccount."),
        apiGroup=_text("The group of the subject's kind."),
        name=_text("The name."),
        namespace=_text("Of a ServiceAccount."),
    )
    role = _object(
        "The role. It cannot be changed.",
        apiGroup=_text(RBAC),
        kind=_text("Role or ClusterRole."),
        name=_text("The name."),
    )
    subjects = {"type": "array", "description": "Who gets the role.", "items": subject}
    where = "everywhere" if kind.startswith("Cluster") else "in its namespace"
    return _object(f"Gives subjects the rights of a role {where}.", subjects=subjects, roleRef=role)


def _role_of(obj: Mapping[str, Any], now: Any) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects_of(kind: str) -> Any:
    def names(obj: Mapping[str, Any], now: Any) -> str:
        found = [each for each in obj.get("subjects") or () if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace', '')}/{each.get('name')}" for each in found)
        return ", ".join(str(each.get("name")) for each in found)

    return names


_ROLE_COLUMNS = (TableColumn("Created At", "string", "", computed=created_at),)
_BINDING_COLUMNS = (
    TableColumn("Role", "string", "", computed=_role_of),
    BUILTIN_AGE,
    *(
        TableColumn(title, "string", "", 1, computed=_subjects_of(kind))
        for title, kind in (
            ("Users", "User"),
            ("Groups", "Group"),
            ("ServiceAccounts", "ServiceAccount"),
        )
    ),
)


def default_subjects(obj: dict[str, Any]) -> None:
    """The group of users, of groups and of the role is known without being said."""
    reference = obj.get("roleRef")
    if isinstance(reference, dict) and not reference.get("apiGroup"):
        obj["roleRef"] = {**reference, "apiGroup": RBAC}
    subjects = obj.get("subjects")
    for index, each in enumerate(subjects if isinstance(subjects, list) else ()):
        if each is None:
            obj["subjects"][index] = {}
        named = isinstance(each, dict) and each.get("kind") in ("User", "Group")
        if named and not each.get("apiGroup"):
            obj["subjects"][index] = {**each, "apiGroup": RBAC}


def validate_role(obj: dict[str, Any]) -> list[FieldError]:
    """Of a role whose fields have their types."""
    errors: list[FieldError] = []
    is_namespaced = obj["kind"] == "Role"
    for index, rule in enumerate(obj.get("rules") or ()):
        if len(errors) > MAX_ERRORS:
            break
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.append(fields.required(f"{at}.verbs", "verbs must contain at least one value"))
        if paths := rule.get("nonResourceURLs"):
            if is_namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(fields.invalid(f"{at}.nonResourceURLs", paths, detail))
            if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(fields.invalid(f"{at}.nonResourceURLs", paths, detail))
            continue
        if not rule.get("apiGroups"):
            detail = "resource rules must supply at least one api group"
            errors.append(fields.required(f"{at}.apiGroups", detail))
        if not rule.get("resources"):
            detail = "resource rules must supply at least one resource"
            errors.append(fields.required(f"{at}.resources", detail))
    return errors


def validate_binding(obj: dict[str, Any]) -> list[FieldError]:
    """Of a binding whose fields have their types."""
    errors: list[FieldError] = []
    role = obj.get("roleRef") or {}
    allowed = ["ClusterRole"] if obj["kind"] == "ClusterRoleBinding" else ["Role", "ClusterRole"]
    if role.get("apiGroup") not in (None, RBAC):
        errors.append(fields.not_supported("roleRef.apiGroup", role["apiGroup"], [RBAC]))
    if role.get("kind") not in allowed:
        errors.append(fields.not_supported("roleRef.kind", role.get("kind", ""), allowed))
    if not role.get("name"):
        errors.append(fields.required("roleRef.name", ""))
    elif fault := path_segment_fault(role["name"]):
        errors.append(fields.invalid("roleRef.name", role["name"], fault))
    for index, subject in enumerate(obj.get("subjects") or ()):
        if len(errors) > MAX_ERRORS:
            break
        errors += _subject_faults(f"subjects[{index}]", subject, obj["kind"])
    return errors


def path_segment_fault(name: str) -> str:
    """What keeps it from being a part of a path, which is all that names of roles must be."""
    if name in (".", "..") or "/" in name or "%" in name:
        return "may not be '.' or '..', nor contain '/' or '%'"
    return ""


_is_subdomain = re.compile(name_patterns.DNS_SUBDOMAIN).fullmatch


def _is_account_name(name: str) -> bool:
    return len(name) <= name_patterns.SUBDOMAIN_LIMIT and _is_subdomain(name) is not None


def _subject_faults(at: str, subject: dict[str, Any], binding: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not subject.get("name"):
        errors.append(fields.required(f"{at}.name", ""))
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    known = ["ServiceAccount", "User", "Group"]
    if kind not in known:
        return [*errors, fields.not_supported(f"{at}.kind", kind, known)]
    expected = "" if kind == "ServiceAccount" else RBAC
    if group != expected:
        errors.append(fields.not_supported(f"{at}.apiGroup", group, [expected]))
    name = subject.get("name")
    if kind == "ServiceAccount" and name and not _is_account_name(name):
        detail = "a lowercase RFC 1123 subdomain is required"
        errors.append(fields.invalid(f"{at}.name", name, detail))
    if kind == "ServiceAccount" and binding.startswith("Cluster") and not subject.get("namespace"):
        errors.append(fields.required(f"{at}.namespace", ""))
    return errors
