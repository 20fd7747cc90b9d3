#!/usr/bin/env python3
"""Build ``dist/datumctl-compute``: the product and its dependencies as one executable file.

pip installs the product into a directory, with the versions of ``constraints.txt``; the
product goes into a zip as it is, its dependencies go into it as one entry, and
``plugin_bootstrap.py`` becomes its ``__main__``. Modules that run from within the zip are in it
compiled as well, since Python writes no bytecode into a zip. The result fits the platform and
the Python that built it, because some dependencies are compiled.

The same tree built twice gives the same bytes: entries are sorted and carry no times, and
what pip records about the installation itself is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import py_compile
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOTSTRAP = ROOT / "scripts" / "plugin_bootstrap.py"
PRODUCT = "datum_compute"
FACTS = "plugin.json"
PAYLOAD = "dependencies.zip"
MAIN = "__main__.py"
SHEBANG = b"#!/usr/bin/env python3\n"
RUN_FROM_THE_ZIP = (
    MAIN,
    f"{PRODUCT}/__init__.py",
    f"{PRODUCT}/env.py",
    *(
        f"{PRODUCT}/cli/{name}.py"
        for name in (
            "__init__",
            "arguments",
            "context",
            "errors",
            "explain/__init__",
            "explain/suggestions",
            "main",
            "plugin",
            "quick/__init__",
            "quick/start",
            "render/__init__",
            "render/printable",
        )
    ),
)
"""What help and the manifest load. Each entry of the zip costs every start a little, so no more
than these are there twice."""

LEFT_OUT_NAMES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""What pip notes about this one installation, paths of this machine included."""
LEFT_OUT_SUFFIXES = frozenset({".pyc", ".pyi", ".pyx", ".pxd", ".h", ".c"})
"""Sources of compiled extensions, and types: nothing imports them."""
LEFT_OUT_DIRECTORIES = ("bin/", "apsw/tests/", "apsw/sqlite_extra_binaries/")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the single-file datumctl plugin.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "datumctl-compute")
    output: Path = parser.parse_args().output
    with tempfile.TemporaryDirectory(prefix="datum-compute-plugin-") as directory:
        install(Path(directory))
        contents = read_contents(Path(directory))
    write_plugin(output, contents)
    print(f"{output} ({output.stat().st_size / 1e6:.1f} MB)")
    return 0


def install(directory: Path) -> None:
    """Install everything the product needs, as in site-packages."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    command += ["--disable-pip-version-check", "--target", str(directory), str(ROOT)]
    # As a variable it reaches the isolated build of the product too; the option would not. As a
    # URL, since pip takes a space in a path for the end of it.
    constraint = {"PIP_CONSTRAINT": (ROOT / "constraints.txt").as_uri()}
    subprocess.run(command, check=True, env={**os.environ, **constraint})


def read_contents(directory: Path) -> dict[str, bytes]:
    """The files to ship, by their path with forward slashes, in order."""
    contents = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and not is_left_out(name):
            contents[name] = path.read_bytes()
    return contents


def is_left_out(name: str) -> bool:
    path = Path(name)
    return (
        path.suffix in LEFT_OUT_SUFFIXES
        or name.startswith(LEFT_OUT_DIRECTORIES)
        or (path.name in LEFT_OUT_NAMES and path.parent.suffix == ".dist-info")
    )


def write_plugin(output: Path, contents: Mapping[str, bytes]) -> None:
    product = {name: data for name, data in contents.items() if name.startswith(f"{PRODUCT}/")}
    others = {name: data for name, data in contents.items() if name not in product}
    facts = {
        "digest": content_digest(contents),
        "python": ".".join(map(str, sys.version_info[:2])),
        "platform": f"{sys.platform}-{platform.machine()}",
    }
    run = {MAIN: BOOTSTRAP.read_bytes(), **product}
    entries = {
        **run,
        **{f"{name}c": compiled(name, run[name]) for name in RUN_FROM_THE_ZIP},
        FACTS: json.dumps(facts).encode(),
        PAYLOAD: build_zip(others.items()),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.new")
    temporary.write_bytes(build_zip(entries.items(), prefix=SHEBANG))
    temporary.chmod(0o755)
    temporary.replace(output)


def compiled(name: str, source: bytes) -> bytes:
    """For the Python that builds this; another one falls back on the source. Nothing in it
    depends on time, and it is not compared with the source when it is loaded."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "module.py")
        file.write_bytes(source)
        py_compile.compile(
            str(file),
            cfile=f"{file}c",
            dfile=name,
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        return Path(f"{file}c").read_bytes()


def content_digest(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in contents.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:32]


def build_zip(entries: Iterable[tuple[str, bytes]], *, prefix: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    buffer.write(prefix)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name)  # 1980, the earliest time of the zip format
            info.external_attr = 0o644 << 16
            packed = name.endswith(".zip")
            info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
