"""The manifest that datumctl requests from a plugin before it runs it.

Imports nothing but the standard library, so that a single-file build can answer without
unpacking itself.
"""

from __future__ import annotations

from datum_compute import __version__

MANIFEST_FLAG = "--plugin-manifest"
API_VERSION = 1
"""The version of datumctl's plugin protocol that this program speaks."""


def manifest() -> str:
    import json

    return json.dumps(
        {
            "name": "compute",
            "version": __version__,
            "description": "Run workloads in many cities",
            "api_version": API_VERSION,
            "min_api_version": API_VERSION,
        }
    )
