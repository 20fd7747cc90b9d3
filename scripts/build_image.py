#!/usr/bin/env python3
"""Build the image of compute-manager with buildah, without any image to start from.

The files of a few Debian packages (Python, its libraries, certificates and time zones) become the
system; their scripts do not run, and none of them brings a shell. Our wheel and its dependencies
are installed beside them. Packages come from where this machine's apt and pip take them.

The result is ``dist/image``, a layout of OCI, and ``dist/sbom.cdx.json``, what is in it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from datum_compute import __version__  # noqa: E402
from scripts import sbom  # noqa: E402

IMAGE = f"datum-compute/compute-manager:{__version__}"
PYTHON = "3.11"
"""Of the Debian release whose packages are taken."""
PACKAGES = (
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
    *("libc6", "libcrypt1", "libgcc-s1", "libstdc++6"),
    *("libssl3", "libexpat1", "libffi8", "libsqlite3-0", "libuuid1"),
    *("libbz2-1.0", "liblzma5", "zlib1g"),
    *("base-files", "ca-certificates", "media-types", "netbase", "tzdata"),
)
PROGRAMS = {f"python{PYTHON}"}
"""All that is left in the folders of programs."""
ENTRY = f"""\
#!/usr/bin/python{PYTHON}
import sys

from datum_compute.assembly.manager.main import run

sys.exit(run())
"""
UNNEEDED = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/lintian", "usr/sbin")


def run(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([str(part) for part in command], cwd=cwd, check=True, stdout=sys.stderr.fileno())


def build_system(folder: Path, debs: Path) -> None:
    """The files of the packages, without their programs."""
    debs.mkdir()
    # As root apt would switch to a user of its own, who may not write here.
    run("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *PACKAGES, cwd=debs)
    for deb in sorted(debs.glob("*.deb")):
        run("dpkg-deb", "--extract", deb, folder)
    for program in (folder / "usr/bin").iterdir():
        if program.name not in PROGRAMS:
            program.unlink()
    for name in UNNEEDED:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("bin", "sbin"):
        # Debian's own are links to the same folders below usr, where the packages put theirs.
        shutil.rmtree(folder / name, ignore_errors=True)
    authorities = sorted((folder / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = folder / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in authorities))
    (folder / "etc/passwd").write_text("compute:x:65532:65532::/:\n")
    (folder / "etc/group").write_text("compute:x:65532:\n")
    entry = folder / "usr/bin/compute-manager"
    entry.write_text(ENTRY)
    entry.chmod(0o755)


def install_app(folder: Path, wheels: Path) -> None:
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT)
    [wheel] = wheels.glob("*.whl")
    run(
        *(*pip, "install", "--quiet", "--target", folder, "--python-version", PYTHON),
        *("--only-binary=:all:", "--constraint", ROOT / "constraints.txt", wheel),
    )
    shutil.rmtree(folder / "bin")  # started by our own entry


def compile_bytecode(system: Path, app: Path) -> None:
    """Compile every module, so that no start has to: Debian does it in scripts that do not run
    here. All times in the image are 0, so the bytecode is not compared with them. The interpreter
    of the image does it, whatever runs this script."""
    python = system / f"usr/bin/python{PYTHON}"
    library = system / f"usr/lib/python{PYTHON}"
    for folder, prefix, shown in ((library, system, "/"), (app, app, "/app")):
        run(
            *("env", f"PYTHONHOME={system / 'usr'}", python, "-S", "-m", "compileall"),
            *("-q", "-f", "--invalidation-mode=unchecked-hash"),
            *("-s", prefix, "-p", shown, folder),
        )


def build(output: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        work = Path(name)
        context = work / "context"
        context.mkdir()
        (context / "app").mkdir()
        build_system(context / "system", work / "debs")
        install_app(context / "app", work / "wheels")
        compile_bytecode(context / "system", context / "app")
        run(
            *("buildah", "bud", "--isolation=chroot", "--quiet", "--timestamp=0"),
            *(f"--tag={IMAGE}", f"--file={ROOT / 'Containerfile'}", context),
        )
        shutil.rmtree(output / "image", ignore_errors=True)
        output.mkdir(exist_ok=True)
        run("buildah", "push", "--quiet", IMAGE, f"oci:{output / 'image'}:{__version__}")
        components = [*debian_packages(work / "debs"), *sbom.distributions(context / "app")]
        document = sbom.document("compute-manager", __version__, components)
        (output / "sbom.cdx.json").write_text(json.dumps(document, indent=2) + "\n")


def debian_packages(debs: Path) -> Sequence[Mapping[str, object]]:
    fields = ("Package", "Version", "Architecture")
    found = []
    for deb in sorted(debs.glob("*.deb")):
        values = [
            subprocess.check_output(["dpkg-deb", "--field", str(deb), field], text=True).strip()
            for field in fields
        ]
        found.append(sbom.debian_package(*values))
    return found


def missing_programs() -> list[str]:
    return [each for each in ("apt-get", "dpkg-deb", "buildah") if shutil.which(each) is None]


def main() -> int:
    if absent := missing_programs():
        print(f"build-image: needs {', '.join(absent)}: build it on Debian", file=sys.stderr)
        return 1
    build(ROOT / "dist")
    print(f"{IMAGE} in dist/image, its contents in dist/sbom.cdx.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
