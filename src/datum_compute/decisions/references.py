"""Data of ConfigMaps and Secrets that an Instance needs.

It is not propagated to cells, so an Instance that needs it reports that instead of starting
with a part of its configuration missing. Optional references may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from datum_compute.api.compute import v1alpha as compute


def describe_undelivered_data(spec: compute.InstanceSpec) -> str:
    """A message that names what is missing; empty when nothing is."""
    needed = list(dict.fromkeys(_needed(spec)))
    if not needed:
        return ""
    return f"data of {', '.join(needed)} is not delivered to cells yet"


def _needed(spec: compute.InstanceSpec) -> Iterator[str]:
    for volume in spec.volumes:
        if volume.config_map is not None and not volume.config_map.optional:
            yield _config_map(volume.config_map.name)
        if volume.secret is not None and not volume.secret.optional:
            yield _secret(volume.secret.secret_name)
    sandbox = spec.runtime.sandbox
    if sandbox is None:
        return
    for container in sandbox.containers:
        for variable in container.env:
            source = variable.value_from
            if source is None:
                continue
            if source.config_map_key_ref is not None and not source.config_map_key_ref.optional:
                yield _config_map(source.config_map_key_ref.name)
            if source.secret_key_ref is not None and not source.secret_key_ref.optional:
                yield _secret(source.secret_key_ref.name)
    for reference in sandbox.image_pull_secrets:
        yield _secret(reference.name)


def _config_map(name: str) -> str:
    return f'ConfigMap "{name}"'


def _secret(name: str) -> str:
    return f'Secret "{name}"'
