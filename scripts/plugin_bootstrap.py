"""The first code that runs in the single-file plugin, as its ``__main__``.

The file is a zip behind a ``#!`` line. Help and the plugin's manifest are printed by the
product directly from the zip, which holds the few modules for that compiled. Everything else
may need compiled extensions, which do not load from a zip, so the first use unpacks the file to

    ${XDG_CACHE_HOME:-~/.cache}/datum-compute/plugin/<hash of the content>/

and every use runs from there. A directory of that name is complete: it is filled under
another name and then renamed, so a second first use at the same moment, or a kill in the
middle, does no harm.

Whatever ``python3`` the ``#!`` line finds starts this, so it is written for any Python 3 and
looks for the right one before it imports the product. It runs before every command, so it
imports rarely needed modules only where they are needed.
"""

from __future__ import annotations

import json
import os
import sys
import zipimport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FACTS = "plugin.json"
"""In the zip: the digest, and the Python and platform that the extensions were built for."""
PAYLOAD = "dependencies.zip"
"""In the zip, as one entry: a directory of a thousand names would slow down every start."""
FROM_THE_ZIP: tuple[list[str], ...] = ([], ["-h"], ["--help"])
ABANDONED_SECONDS = 24 * 3600
"""An incomplete directory this old is abandoned: unpacking takes a second or two."""


def main() -> int:
    archive = os.path.dirname(os.path.abspath(__file__))
    facts = json.loads(zipimport.zipimporter(archive).get_data(FACTS))
    ensure_interpreter(facts, archive)
    arguments = sys.argv[1:]
    if "--plugin-manifest" not in arguments and arguments not in FROM_THE_ZIP:
        # The zip is the first entry of the path; the same modules now come from the files.
        sys.path[0] = ensure_unpacked(archive, facts["digest"])
    from datum_compute.cli.quick.start import run

    return run()


def ensure_interpreter(facts: dict[str, Any], archive: str) -> None:
    """Return on the Python this was built for; otherwise execute it, or report it missing."""
    here = f"{sys.platform}-{os.uname().machine}"
    if here != facts["platform"]:
        stop(f"this file was built for {facts['platform']}; this machine is {here}")
    version = ".".join(map(str, sys.version_info[:2]))
    if version == facts["python"]:
        return
    name = f"python{facts['python']}"
    import shutil

    found = shutil.which(name)
    if found is None:
        stop(f"{name} is needed and not on PATH; {sys.executable} is Python {version}")
    os.execv(found, [found, archive, *sys.argv[1:]])


def ensure_unpacked(archive: str, digest: str) -> str:
    parent = os.path.join(cache_directory(), "datum-compute", "plugin")
    directory = os.path.join(parent, digest)
    if not os.path.isdir(directory):
        try:
            unpack(archive, parent, directory)
        except OSError as error:
            stop(f"unpacking to {parent}: {error}; XDG_CACHE_HOME may name another directory")
    return directory


def cache_directory() -> str:
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # The rule for these variables: a relative path is to be ignored.
    return chosen if os.path.isabs(chosen) else os.path.expanduser(os.path.join("~", ".cache"))


def unpack(archive: str, parent: str, directory: str) -> None:
    import io
    import shutil
    import tempfile
    import zipfile

    os.makedirs(parent, mode=0o700, exist_ok=True)
    remove_abandoned(parent)
    temporary = tempfile.mkdtemp(prefix=".unpacking-", dir=parent)
    try:
        with zipfile.ZipFile(archive) as outer:
            # What lies compiled beside its source is for use within the zip.
            members = [n for n in outer.namelist() if "/" in n and not n.endswith(".pyc")]
            outer.extractall(temporary, members)
            with zipfile.ZipFile(io.BytesIO(outer.read(PAYLOAD))) as payload:
                payload.extractall(temporary)
        try:
            os.rename(temporary, directory)
        except OSError:
            if not os.path.isdir(directory):
                raise
            # Another process was first, with the same content.
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_abandoned(parent: str) -> None:
    """Remove what a killed first use left behind."""
    import contextlib
    import shutil
    import time

    for entry in os.scandir(parent):
        if entry.name.startswith(".unpacking-"):
            with contextlib.suppress(OSError):  # its owner may be filling or removing it
                if entry.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    shutil.rmtree(entry.path)


def stop(message: str) -> NoReturn:
    sys.stderr.write(f"datumctl-compute: {message}\n")
    sys.exit(13)  # the product's code for "not available on this platform"


if __name__ == "__main__":
    sys.exit(main())
