"""What differs between two Workload specs, as users call the fields.

Both specs are first normalized: nulls, empty values and explicit defaults are removed, so a default
that a server filled in is no change. Then they are compared field by field: items of named lists by
name, in any order; a variable, a port, a mount and a volume as one change where one line can show
it; everything else leaf by leaf, under its path if it has no label. Every difference is reported.

Uses plain JSON values and the standard library, so that it is quick to import.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from datum_compute.api.compute import constants
from datum_compute.decisions.instances.revisions import TEMPLATE_DEFAULTS, without_defaults

NO_VALUE = "(none)"
LONGEST_VALUE = 200
"""Characters of a value that a change repeats."""
MOST_IN_SUMMARY = 3
MASK = "••••"
"""Instead of the value of a variable that looks like a secret."""

_SECRET_NAME = re.compile(
    r"passw|passphrase|pwd|token|secret|key|dsn|credential|auth", re.IGNORECASE
)
_SECRET_VALUE = re.compile(r"://[^/\s]*:[^/\s]*@|-----BEGIN [A-Z ]*PRIVATE KEY")
"""A URL with a password, or a private key."""

_ABSENT: Any = object()

_NAMED = frozenset(
    {"placements", "containers", "env", "ports", "volumes", "volumeAttachments", "imagePullSecrets"}
)
"""Lists whose items are known by their name."""

_DEFAULTS = {
    **{("template", *path): value for path, value in TEMPLATE_DEFAULTS.items()},
    (
        "placements",
        "[]",
        "scaleSettings",
        "instanceManagementPolicy",
    ): constants.POLICY_ORDERED_READY,
}


class SpecChange(NamedTuple):
    label: str
    """The field as users call it: ``image``, ``env LOG_LEVEL``, ``min replicas (default)``."""
    old: str
    new: str
    path: str
    """Where in the spec; items of named lists by their name."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """For a list of names, such as cities: what was added and removed."""
    field: str = ""
    """The last step of the path, where the change is of one field."""

    def __str__(self) -> str:
        return f"{self.old} → {self.new}"


def diff_specs(old_spec: Mapping[str, Any], new_spec: Mapping[str, Any]) -> tuple[SpecChange, ...]:
    """Every difference, in the order of the fields; empty if the specs are equivalent."""
    return tuple(_compare(normalize_spec(old_spec), normalize_spec(new_spec), ()))


def diff_metadata(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[SpecChange]:
    """What differs between the labels and annotations of two workloads."""
    found = []
    for kind, word in (("labels", "label"), ("annotations", "annotation")):
        before = live["metadata"].get(kind) or {}
        after = wanted["metadata"].get(kind) or {}
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) == after.get(key):
                continue
            old, new = (
                describe_note(key, each[key]) if key in each else NO_VALUE
                for each in (before, after)
            )
            label = f"{word} {key}"
            if key == constants.ANNOTATION_ROLLOUT:
                label = "waves"
            elif key == constants.ANNOTATION_HTTP_PORT:
                label = "http port"
            found.append(SpecChange(label, old, new, f"metadata.{kind}.{key}"))
    return found


def describe_note(key: str, value: str) -> str:
    """The value of a label or annotation of a workload, on one line."""
    policy = describe_policy(value) if key == constants.ANNOTATION_ROLLOUT else ""
    return policy or value_text(value)


def describe_policy(annotation: str) -> str:
    """``DFW, then IAD + LHR; soak 60s``: a rollout policy; empty where it cannot be read."""
    try:
        policy = json.loads(annotation)
        waves = policy.pop("waves", None)
        if isinstance(waves, list):
            waves = ", then ".join(" + ".join(cities) for cities in waves)
        elif waves == "each":
            waves = "one city after the other"
        parts = [waves or "all at once"]
        after = policy.pop("onFailure", "")
        parts += [f"{key} {value}" for key, value in policy.items()]
        return "; ".join([*parts, *([f"on failure {after.lower()}"] if after else [])])
    except (ValueError, TypeError, AttributeError):
        return ""


def normalize_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec without nulls, empty values and explicit defaults."""
    return without_defaults(spec, _DEFAULTS)


def mask_variable(name: str, value: str) -> str:
    """The value of an environment variable, unless name or value look like a secret."""
    return MASK if value and (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)) else value


def masked_variables(spec: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a spec that look like secrets, with their values, which are for comparing
    and not for showing."""
    return {
        variable["name"]: str(variable["value"])
        for container in containers_of(spec)
        for variable in container.get("env") or []
        if variable.get("value") and mask_variable(variable["name"], str(variable["value"])) == MASK
    }


def containers_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    runtime = spec["template"]["spec"].get("runtime") or {}
    found: list[dict[str, Any]] = (runtime.get("sandbox") or {}).get("containers") or []
    return found


def mask_spec(value: Any) -> Any:
    """A copy of a spec, or of a part of one, in which no variable shows a secret."""
    if isinstance(value, list):
        return [mask_spec(each) for each in value]
    if not isinstance(value, dict):
        return value
    copied = {key: mask_spec(each) for key, each in value.items()}
    name, text = value.get("name"), value.get("value")
    if isinstance(name, str) and isinstance(text, str):
        copied["value"] = mask_variable(name, text)
    return copied


def summarize_changes(changes: Sequence[SpecChange]) -> str:
    """The changes in one line. Values only where they are short and never secret."""
    if not changes:
        return "no changes"
    shown = [_brief(change) for change in changes[:MOST_IN_SUMMARY]]
    more = len(changes) - MOST_IN_SUMMARY
    return ", ".join([*shown, f"{more} more"] if more > 0 else shown)


_Path = tuple[str, ...]


def _compare(old: Any, new: Any, path: _Path) -> Iterator[SpecChange]:
    if _is_same(old, new):
        return
    if described := _described(old, new, path):
        yield described
    elif _all_are(dict, old, new) and (old or new):
        before, after = _or_empty(old, {}), _or_empty(new, {})
        if not before and not after:  # there, and empty, on one side
            yield _leaf(old, new, path)
        for key in dict.fromkeys([*before, *after]):
            yield from _compare(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, key))
    elif _all_are(list, old, new) and not (_or_empty(old, []) or _or_empty(new, [])):
        yield _leaf(old, new, path)  # there, and empty, on one side
    elif _all_are(list, old, new) and path and path[-1] in _NAMED and _are_named(old, new):
        yield from _compare_named(_or_empty(old, []), _or_empty(new, []), path)
    elif _all_are(list, old, new) and any(_holds_objects(side) for side in (old, new)):
        before, after = _or_empty(old, []), _or_empty(new, [])
        for i in range(max(len(before), len(after))):
            one, other = (side[i] if i < len(side) else _ABSENT for side in (before, after))
            yield from _compare(one, other, (*path, f"[{i}]"))
    else:
        yield _leaf(old, new, path)


def _compare_named(old: list[Any], new: list[Any], path: _Path) -> Iterator[SpecChange]:
    before, after = ({item["name"]: item for item in side} for side in (old, new))
    for name in dict.fromkeys([*before, *after]):
        one, other = (_without_name(side.get(name, _ABSENT)) for side in (before, after))
        yield from _compare(one, other, (*path, f"[{name}]"))
    kept_before = [name for name in before if name in after]
    kept_after = [name for name in after if name in before]
    if kept_before != kept_after:
        where = f"order of {_word(path)}"
        yield SpecChange(where, ", ".join(kept_before), ", ".join(kept_after), _dotted(path))


def _without_name(item: Any) -> Any:
    if item is _ABSENT:
        return _ABSENT
    return {key: value for key, value in item.items() if key != "name"}


def _leaf(old: Any, new: Any, path: _Path) -> SpecChange:
    before, after = _text(old), _text(new)
    if before == after:
        before, after = _exact(old), _exact(new)
    before, after = (_masked(path, side) for side in (before, after))
    return SpecChange(_word(path), _cut(before), _cut(after), _dotted(path), field=_field(path))


def _masked(path: _Path, text: str) -> str:
    """The text of a value, or the mask if it belongs to a variable that looks like a secret."""
    if "env" not in path[:-1] or "valueFrom" in path or text == NO_VALUE:
        return text
    return mask_variable(path[path.index("env") + 1], text)


# One line for a value of several fields, where one line can show it.


def _described(old: Any, new: Any, path: _Path) -> SpecChange | None:
    describe = _DESCRIPTIONS.get(tuple("[]" if s.startswith("[") else s for s in path))
    if describe is None:
        return None
    before, after = (NO_VALUE if side is _ABSENT else describe(side) for side in (old, new))
    if before is None or after is None or before == after:
        return None  # one line does not show the difference
    before, after = (
        text if "valueFrom" in _or_empty(value, {}) else _masked(path, text)
        for text, value in ((before, old), (after, new))
    )
    added, removed = _moves(old, new) if path[-1] == "cityCodes" else ((), ())
    return SpecChange(
        _word(path), _cut(before), _cut(after), _dotted(path), added, removed, _field(path)
    )


def _moves(old: Any, new: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before, after = (_or_empty(side, []) for side in (old, new))
    added = tuple(str(city) for city in after if city not in before)
    return added, tuple(str(city) for city in before if city not in after)


def _tokens(value: Any) -> str | None:
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        return None
    import shlex

    return _printable(shlex.join(value))


def _names(value: Any) -> str | None:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    return _printable(", ".join(value))


def describe_variable(variable: Mapping[str, Any]) -> str:
    """A variable as a summary shows it: its masked value, or where that comes from."""
    if "value" in variable:
        return value_text(mask_variable(str(variable["name"]), str(variable["value"])))
    return _variable(_without_name(variable)) or "from a reference"


def describe_sources(sources: Any) -> str | None:
    """The objects of ``envFrom``, where names are all there is to say."""
    if not isinstance(sources, list):
        return None
    names = [_all_keys_of(each) for each in sources]
    return None if None in names else ", ".join(name for name in names if name)


def _all_keys_of(source: Any) -> str | None:
    if not isinstance(source, dict) or len(source) != 1:
        return None
    ((kind, reference),) = source.items()
    if kind not in _ALL_KEYS or not isinstance(reference, dict) or "name" not in reference:
        return None
    if set(reference) - {"name", "optional"}:
        return None
    optional = " (optional)" if reference.get("optional") is True else ""
    return f"{_ALL_KEYS[kind]} {_text(reference['name'])}{optional}"


_ALL_KEYS = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


def _secret_names(value: Any) -> str | None:
    """The names of ``imagePullSecrets``."""
    if not isinstance(value, list) or not all(_are_only_names(each) for each in value):
        return None
    return ", ".join(f"Secret {_text(each['name'])}" for each in value)


def _are_only_names(item: Any) -> bool:
    return isinstance(item, dict) and set(item) == {"name"}


def _variable(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    if not value:
        return '""'
    if set(value) == {"value"}:
        return _text(value["value"])
    source = value.get("valueFrom")
    if set(value) != {"valueFrom"} or not isinstance(source, dict) or len(source) != 1:
        return None
    ((kind, reference),) = source.items()
    if kind not in _KEY_SOURCES or not isinstance(reference, dict):
        return None
    if set(reference) != {"name", "key"}:
        return None
    return f"from {_KEY_SOURCES[kind]} {_text(reference['name'])}, key {_text(reference['key'])}"


_KEY_SOURCES = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}


def _port(value: Any) -> str | None:
    if not isinstance(value, dict) or "port" not in value or set(value) - {"port", "protocol"}:
        return None
    protocol = f"/{_text(value['protocol'])}" if "protocol" in value else ""
    return f"{_text(value['port'])}{protocol}"


def _mount(value: Any) -> str | None:
    if not isinstance(value, dict) or set(value) - {"mountPath"}:
        return None
    return _text(value["mountPath"]) if "mountPath" in value else "attached, not mounted"


def describe_volume(value: Any) -> str | None:
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, source),) = value.items()
    if kind == "disk":
        return _disk(source)
    name = {"configMap": "name", "secret": "secretName"}.get(kind)
    if name is None or not isinstance(source, dict) or name not in source:
        return None
    mode, remarks = source.get("defaultMode", 0), []
    if set(source) - {name, "defaultMode", "optional"} or not isinstance(mode, int):
        return None
    if "defaultMode" in source:
        remarks.append(f"mode {mode:04o}")
    if source.get("optional"):
        remarks.append("optional")
    remark = f" ({', '.join(remarks)})" if remarks else ""
    return f"{'ConfigMap' if kind == 'configMap' else 'Secret'} {_text(source[name])}{remark}"


def _disk(disk: Any) -> str | None:
    """Describes a disk that has only a size and an initial content."""
    size, image, kind = (_find(disk, *path) for path in _DISK)
    parts = [f"disk {_text(size)}" if size is not _ABSENT else "disk"]
    known: Any = {}
    for path, value in zip(_DISK, (size, image, kind), strict=True):
        if value is not _ABSENT:
            _put(known, path, value)
    if not _is_same(known, disk):
        return None
    if image is not _ABSENT:
        parts.append(f"of image {_text(image)}")
    if kind is not _ABSENT:
        parts.append(f"with {_text(kind)}")
    return " ".join(parts)


_DISK: tuple[_Path, ...] = (
    ("template", "spec", "resources", "requests", "storage"),
    ("template", "spec", "populator", "image", "name"),
    ("template", "spec", "populator", "filesystem", "type"),
)


def _find(value: Any, *path: str) -> Any:
    for step in path:
        value = value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
    return value


def _put(target: dict[str, Any], path: _Path, value: Any) -> None:
    for step in path[:-1]:
        target = target.setdefault(step, {})
    target[path[-1]] = value


def _users(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return ", ".join(line.partition(":")[0] for line in value.strip().split("\n"))


_CONTAINER = ("template", "spec", "runtime", "sandbox", "containers", "[]")
_MACHINE = ("template", "spec", "runtime", "virtualMachine")
_ANNOTATIONS = ("template", "metadata", "annotations")

_DESCRIPTIONS: dict[_Path, Callable[[Any], str | None]] = {
    (*_CONTAINER, "command"): _tokens,
    (*_CONTAINER, "args"): _tokens,
    (*_CONTAINER, "env", "[]"): _variable,
    (*_CONTAINER, "envFrom"): describe_sources,
    (*_CONTAINER, "ports", "[]"): _port,
    (*_CONTAINER, "volumeAttachments", "[]"): _mount,
    (*_MACHINE, "ports", "[]"): _port,
    (*_MACHINE, "volumeAttachments", "[]"): _mount,
    (*_ANNOTATIONS, constants.ANNOTATION_SSH_KEYS): _users,
    ("template", "spec", "runtime", "sandbox", "imagePullSecrets"): _secret_names,
    ("template", "spec", "volumes", "[]"): describe_volume,
    ("placements", "[]", "cityCodes"): _names,
}


# Labels of fields.

_WORDS = {"envFrom": "env from"}
_PARTS = {"env": "env", "ports": "port", "volumeAttachments": "mount", "volumes": "volume"}
_SCALE = {
    ("cityCodes",): "cities",
    ("scaleSettings", "minReplicas"): "min replicas",
    ("scaleSettings", "maxReplicas"): "max replicas",
}


def _word(path: _Path) -> str:
    match path:
        case ("template", "metadata", "labels", key):
            return f"label {key}"
        case ("template", "metadata", "annotations", constants.ANNOTATION_RESTARTED_AT):
            return "restarted at"
        case ("template", "metadata", "annotations", constants.ANNOTATION_SSH_KEYS):
            return "SSH keys"
        case (
            "template",
            "metadata",
            "annotations",
            constants.ANNOTATION_ROLL_ON_CONFIG_CHANGE,
        ):
            return "roll on config change"
        case ("template", "metadata", "annotations", constants.ANNOTATION_SLEEP_AFTER):
            return "sleep after"
        case ("template", "metadata", "annotations", key):
            return f"annotation {key}"
        case ("template", "spec", "runtime", "resources", "instanceType"):
            return "instance type"
        case ("template", "spec", "runtime", "sandbox", "imagePullSecrets"):
            return "pull secrets"
        case ("template", "spec", "runtime", "sandbox", "containers", name, *rest):
            whose = "" if name == "[app]" else f" ({name[1:-1]})"
            return f"{_part(rest)}{whose}" if rest else f"container {name[1:-1]}"
        case ("template", "spec", "runtime", "virtualMachine", *rest) if rest:
            return _part(rest)
        case ("template", "spec", "volumes", *rest) if rest:
            return _part(["volumes", *rest])
        case ("template", "spec", "networkInterfaces", position, *rest):
            return _interface(position, rest)
        case ("placements", name, *rest):
            word = _SCALE.get(tuple(rest)) or _dotted(tuple(rest))
            return f"{word} ({name[1:-1]})" if rest else f"placement {name[1:-1]}"
    return _dotted(path)


def _part(path: Sequence[str]) -> str:
    """A field of a container or a machine."""
    field, *rest = path
    if not rest and field in _WORDS:
        return _WORDS[field]
    if not rest or field not in _PARTS:
        return _dotted(tuple(path))
    name, *inner = rest
    return " ".join([_PARTS[field], name[1:-1], *([_dotted(tuple(inner))] if inner else [])])


def _interface(position: str, rest: Sequence[str]) -> str:
    number = position[1:-1]
    which = f" {int(number) + 1}" if number.isdecimal() and number != "0" else ""
    if tuple(rest) == ("network", "name"):
        return f"network{which}"
    return " ".join([f"network interface{which}", *([_dotted(tuple(rest))] if rest else [])])


def _field(path: _Path) -> str:
    return path[-1] if path else ""


def _dotted(path: _Path) -> str:
    text = "".join(step if step.startswith("[") else f".{step}" for step in path)
    return text.removeprefix(".")


# Values as texts.


def _text(value: Any) -> str:
    if value is _ABSENT:
        return NO_VALUE
    if isinstance(value, str) and value and value != NO_VALUE:
        return _printable(value)
    if isinstance(value, list) and value and all(isinstance(item, str | int) for item in value):
        return ", ".join(map(_text, value))
    return _exact(value)


def _printable(text: str) -> str:
    """The text if it fits on a line as it is; quoted otherwise."""
    return text if text.isprintable() else _exact(text)


def _exact(value: Any) -> str:
    if value is _ABSENT:
        return NO_VALUE
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def value_text(value: str) -> str:
    """A value on one line, shortened where it is long."""
    return _cut(_text(value))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_VALUE:
        return text
    begin, end = text[: LONGEST_VALUE // 2], "…"
    if text[0] == text[-1] == '"':
        begin, end = begin.rstrip("\\"), '…"'  # no half of an escape
    return f"{begin}{end} ({len(text)} characters)"


def _is_same(old: Any, new: Any) -> bool:
    """As JSON: true is not 1, and 1 is not 1.0."""
    if old is _ABSENT or new is _ABSENT:
        return old is new
    return _exact(old) == _exact(new)


def _all_are(kind: type, *values: Any) -> bool:
    return all(value is _ABSENT or isinstance(value, kind) for value in values)


def _or_empty(value: Any, empty: Any) -> Any:
    return empty if value is _ABSENT else value


def _holds_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _are_named(*lists: Any) -> bool:
    """Whether every item of each has its own name."""
    for items in lists:
        if items is _ABSENT:
            continue
        names = [item.get("name") if isinstance(item, dict) else None for item in items]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            return False
    return True


# The changes in short.


def _brief(change: SpecChange) -> str:
    if change.added or change.removed:
        moves = [*(f"+{one}" for one in change.added), *(f"-{one}" for one in change.removed)]
        return f"{change.label} {' '.join(moves)}"
    if change.field == "image":
        return f"{change.label} {' → '.join(_tags(change.old, change.new))}"
    if change.field in ("minReplicas", "maxReplicas", "instanceType"):
        return f"{change.label} {change}"
    return change.label


def _tags(*images: str) -> Iterable[str]:
    """The tags or digests of images of one repository; whole images of two."""
    split = [_repository_and_tag(image) for image in images]
    if len({repository for repository, _ in split}) == 1 and all(tag for _, tag in split):
        return [tag for _, tag in split]
    return images


def _repository_and_tag(image: str) -> tuple[str, str]:
    repository, at, digest = image.partition("@")
    if at:
        return repository, digest[:19]  # sha256: and twelve digits
    head, colon, tag = image.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (image, "")
