"""Small shapes that several kinds share: references and embedded metadata."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.structural_schema import described


class LocationReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the Location.", required=True)] = ""
    namespace: Annotated[
        str, described("Namespace of the Location; empty, since Locations have none.")
    ] = ""


class TemplateMetadata(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """The metadata a template gives to objects created from it."""

    name: Annotated[str, described("Unused: names are derived.")] = ""
    namespace: Annotated[str, described("Unused: the namespace is the owner's.")] = ""
    labels: Annotated[dict[str, str], described("Labels each new object gets.")] = {}
    annotations: Annotated[dict[str, str], described("Annotations each new object gets.")] = {}
    finalizers: Annotated[
        tuple[str, ...], described("Unused: finalizers are controllers'.", list_type="atomic")
    ] = ()
