"""Manifests: what of a template is propagated, and how it is applied to a member's object.

A manifest is the template without status and without the metadata of the hub's object (uid,
revision, generation, timestamps, owners, finalizers), with labels and annotations of its
origin. In the member it wins for what it contains: the whole content, and each label and
annotation of the template. The rest of the member's metadata is left alone. Keys the template
no longer has are known from the record in two annotations, and are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api import karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.runtime.writes.patch import Values, difference
from datum_compute.standins.karmada import names

CONTENT = ("spec", "data", "binaryData", "type")
"""The parts of an object besides metadata and status."""

_MARKS = frozenset(
    {
        "karmada.io",
        "propagationpolicy.karmada.io",
        "resourcebinding.karmada.io",
        "resourcetemplate.karmada.io",
        "work.karmada.io",
    }
)
"""Prefixes of the labels and annotations that Karmada puts on a member's object."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The Work of a manifest, and its binding if it has one."""

    work_namespace: str
    work_name: str
    work_id: str
    binding_namespace: str = ""
    binding_name: str = ""
    binding_id: str = ""
    overwrite: bool = False
    """Whether an unmanaged object of the member is taken over."""


def build_manifest(template: Object, origin: Origin) -> Values:
    labels = {
        **template.metadata.labels,
        karmada.LABEL_MANAGED: "true",
        karmada.LABEL_WORK_ID: origin.work_id,
    }
    annotations = {
        **template.metadata.annotations,
        karmada.ANNOTATION_WORK_NAMESPACE: origin.work_namespace,
        karmada.ANNOTATION_WORK_NAME: origin.work_name,
        karmada.ANNOTATION_TEMPLATE_UID: template.metadata.uid,
    }
    if template.metadata.generation:  # not of ConfigMaps, Secrets and namespaces
        generation = str(template.metadata.generation)
        annotations[karmada.ANNOTATION_TEMPLATE_GENERATION] = generation
    if origin.binding_name:
        labels[karmada.LABEL_BINDING_ID] = origin.binding_id
        annotations[karmada.ANNOTATION_BINDING_NAMESPACE] = origin.binding_namespace
        annotations[karmada.ANNOTATION_BINDING_NAME] = origin.binding_name
    if origin.overwrite:
        annotations[names.ANNOTATION_CONFLICT_RESOLUTION] = names.OVERWRITE
    # The records name themselves too: they are removed with the last propagated key.
    owned = [
        *annotations,
        karmada.ANNOTATION_MANAGED_LABELS,
        karmada.ANNOTATION_MANAGED_ANNOTATIONS,
    ]
    annotations[karmada.ANNOTATION_MANAGED_LABELS] = _record(labels)
    annotations[karmada.ANNOTATION_MANAGED_ANNOTATIONS] = _record(owned)
    metadata: Values = {"name": template.name, "labels": labels, "annotations": annotations}
    if template.namespace:
        metadata["namespace"] = template.namespace
    manifest: Values = {
        "apiVersion": template.api_version,
        "kind": template.kind,
        "metadata": metadata,
    }
    if template.kind == NAMESPACES.kind:
        return manifest  # its spec is the server's bookkeeping
    for part in CONTENT:
        if content := _content(template, part):
            manifest[part] = content
    return manifest


def may_take_over(member: Object, manifest: Mapping[str, Any]) -> bool:
    """Whether the member's object is managed by Karmada, or may become so."""
    annotations = manifest["metadata"].get("annotations", {})
    resolution = annotations.get(names.ANNOTATION_CONFLICT_RESOLUTION)
    return is_managed(member) or resolution == names.OVERWRITE


def is_managed(member: Object) -> bool:
    return member.metadata.labels.get(karmada.LABEL_MANAGED) == "true"


def decide_change(member: Object, manifest: Mapping[str, Any]) -> Values:
    """The merge patch that applies the manifest to the member's object; empty when applied."""
    metadata = manifest["metadata"]
    change: Values = {}
    labels = _entries(
        member.metadata.labels,
        metadata.get("labels", {}),
        member.metadata.annotations,
        karmada.ANNOTATION_MANAGED_LABELS,
    )
    annotations = _entries(
        member.metadata.annotations,
        metadata.get("annotations", {}),
        member.metadata.annotations,
        karmada.ANNOTATION_MANAGED_ANNOTATIONS,
    )
    if labels or annotations:
        change["metadata"] = {}
        if labels:
            change["metadata"]["labels"] = labels
        if annotations:
            change["metadata"]["annotations"] = annotations
    current = {part: content for part in CONTENT if (content := _content(member, part))}
    if manifest["kind"] == NAMESPACES.kind:
        return change
    wanted = {part: manifest[part] for part in CONTENT if part in manifest}
    return change | _without_server_fields(difference(current, wanted))


def _without_server_fields(change: Values) -> Values:
    """The default type of a Secret is the server's."""
    return {part: content for part, content in change.items() if (part, content) != ("type", None)}


def _content(obj: Object, part: str) -> Any:
    raw = getattr(obj, part) if part in ("spec", "data") else obj.extra.get(part)
    return msgspec.json.decode(raw) if raw else None


def is_drift(change: Values) -> bool:
    """Whether a change in the member is reverted without a change of the Work: not that of
    annotations alone."""
    return set(change) != {"metadata"} or set(change["metadata"]) != {"annotations"}


def decide_release(member: Object) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """The labels and annotations to remove from an object that stays in the member."""

    def marks(found: Iterable[str]) -> dict[str, str | None]:
        return {key: None for key in found if key.split("/")[0] in _MARKS}

    return marks(member.metadata.labels), marks(member.metadata.annotations)


def _entries(
    current: Mapping[str, str],
    wanted: Mapping[str, str],
    annotations: Mapping[str, str],
    record: str,
) -> dict[str, str | None]:
    recorded = annotations.get(record, "").split(",")
    change: dict[str, str | None] = {
        key: None for key in recorded if key in current and key not in wanted
    }
    change.update({key: value for key, value in wanted.items() if current.get(key) != value})
    return change


def _record(keys: Iterable[str]) -> str:
    return ",".join(sorted(set(keys)))
