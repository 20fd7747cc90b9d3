"""ValidatingWebhookConfigurations and MutatingWebhookConfigurations: their rules and defaults."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from datum_compute.api import fields, name_patterns
from datum_compute.api.fields import FieldError, FieldPath
from datum_compute.api.selectors import LabelSelector, SelectorError
from datum_compute.apiserver import cel
from datum_compute.apiserver.codec import encode_json

GROUP = "admissionregistration.k8s.io"
VALIDATING = f"validatingwebhookconfigurations.{GROUP}"
MUTATING = f"mutatingwebhookconfigurations.{GROUP}"
MAX_WEBHOOKS = 32
"""Of one configuration. A guess: each may take a part of a request's time."""
MAX_BYTES = 128 * 1024
"""Of one configuration, whose rules and selectors are read at every write. A guess: room for as
many webhooks as it may have, each with an authority of its own."""
MAX_CONDITIONS = 64
"""Of one webhook, as in the real server."""

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_CHOICES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("failurePolicy", ("Fail", "Ignore"), "Fail"),
    ("matchPolicy", ("Equivalent", "Exact"), "Equivalent"),
)
_SUBDOMAIN = re.compile(name_patterns.DNS_SUBDOMAIN).fullmatch
CONDITION_VARIABLES = {
    name: cel.parse_type("dyn") for name in ("object", "oldObject", "request", "authorizer")
}


def set_defaults(obj: dict[str, Any]) -> list[FieldError]:
    """Completes a configuration in place, and judges it."""
    hooks = obj.get("webhooks") or []
    path = FieldPath.of("webhooks")
    if not isinstance(hooks, list) or not all(isinstance(one, dict) for one in hooks):
        return [fields.type_invalid(path, hooks, "must be a list of webhooks")]
    if len(hooks) > MAX_WEBHOOKS:
        return [fields.invalid(path, len(hooks), f"must have at most {MAX_WEBHOOKS} webhooks")]
    if (size := len(encode_json(hooks))) > MAX_BYTES:
        return [fields.too_long(path, f"{size} bytes", MAX_BYTES)]
    found: list[FieldError] = []
    names: set[Any] = set()
    for index, hook in enumerate(hooks):
        here = path.index(index)
        try:
            found += _hook_faults(hook, here, is_mutating="Mutating" in str(obj.get("kind")))
        except (TypeError, AttributeError, ValueError):
            found.append(fields.invalid(here, hook, "has values of wrong types"))
        if hook.get("name") in names:
            found.append(fields.duplicate(here.child("name"), hook["name"]))
        names.add(str(hook.get("name")))
    return found


def _hook_faults(
    hook: dict[str, Any], path: FieldPath, *, is_mutating: bool
) -> Iterator[FieldError]:
    name = hook.get("name") or ""
    if not _SUBDOMAIN(name) or name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield fields.invalid(path.child("name"), name, detail)
    choices = _CHOICES
    if is_mutating:
        choices = (*choices, ("reinvocationPolicy", ("Never", "IfNeeded"), "Never"))
    for key, allowed, default in choices:
        if hook.setdefault(key, default) not in allowed:
            yield fields.not_supported(path.child(key), hook[key], allowed)
    if hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
        where, given = path.child("sideEffects"), hook.get("sideEffects")
        if given is None:
            yield fields.required(where, "must specify one of None, NoneOnDryRun")
        else:
            yield fields.not_supported(where, given, ("None", "NoneOnDryRun"))
    versions = hook.get("admissionReviewVersions") or []
    if "v1" not in versions:
        where = path.child("admissionReviewVersions")
        detail = "must include at least one of v1"
        yield (
            fields.invalid(where, versions, detail)
            if versions
            else fields.required(where, "must specify one of v1")
        )
    seconds = hook.setdefault("timeoutSeconds", 10)
    if type(seconds) is not int or not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield fields.invalid(path.child("timeoutSeconds"), seconds, detail)
    for key in ("namespaceSelector", "objectSelector"):
        try:
            LabelSelector.from_wire(hook.setdefault(key, {}))
        except SelectorError as error:
            yield fields.invalid(path.child(key), hook[key], str(error))
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from _rule_faults(rule, path.child("rules").index(index))
    yield from _client_faults(hook.get("clientConfig") or {}, path.child("clientConfig"))
    conditions = hook.get("matchConditions") or ()
    if len(conditions) > MAX_CONDITIONS:
        where = path.child("matchConditions")
        yield fields.too_many(where, len(conditions), MAX_CONDITIONS)
        return
    for index, condition in enumerate(conditions):
        here = path.child("matchConditions").index(index)
        if not condition.get("name"):
            yield fields.required(here.child("name"))
        try:
            program = cel.compile_expression(condition.get("expression") or "", CONDITION_VARIABLES)
            if program.type.name not in ("bool", "dyn"):
                raise ValueError("must evaluate to bool")
        except (cel.CompileError, ValueError) as error:
            text = condition.get("expression") or ""
            yield fields.invalid(here.child("expression"), text, f"compilation failed: {error}")


def _rule_faults(rule: dict[str, Any], path: FieldPath) -> Iterator[FieldError]:
    for key in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(key):
            yield fields.required(path.child(key))
    for index, one in enumerate(rule.get("operations") or ()):
        if one not in _OPERATIONS:
            yield fields.not_supported(path.child("operations").index(index), one, _OPERATIONS)
    if rule.setdefault("scope", "*") not in ("*", "Cluster", "Namespaced"):
        yield fields.not_supported(
            path.child("scope"), rule["scope"], ("*", "Cluster", "Namespaced")
        )


def _client_faults(client: dict[str, Any], path: FieldPath) -> Iterator[FieldError]:
    url = client.get("url")
    if client.get("service"):
        detail = "there are no Services here: give the webhook's address as url"
        yield fields.forbidden(path.child("service"), detail)
    elif not url:
        yield fields.required(path, "exactly one of url or service is required")
    else:
        parts = urlsplit(url)
        if parts.scheme != "https":
            detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
            yield fields.invalid(path.child("url"), url, detail)
        if not parts.hostname:
            yield fields.invalid(path.child("url"), url, "host must be specified")
        for what, given in (("query parameters", parts.query), ("fragments", parts.fragment)):
            if given:
                yield fields.invalid(path.child("url"), url, f"{what} are not permitted")
        if "@" in parts.netloc:
            yield fields.invalid(path.child("url"), url, "user information is not permitted")
    try:
        base64.b64decode(client.get("caBundle") or "", validate=True)
    except binascii.Error:
        yield fields.invalid(path.child("caBundle"), "", "must be base64")
