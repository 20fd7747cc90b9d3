"""What of a directory goes to the builder."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from datum_compute.providers.container.images import context
from datum_compute.providers.container.images.context import (
    ContextUnusable,
    IgnoreRules,
    content_digest,
    find_dockerfile,
    pack_directory,
)


def write(directory: Path, *paths: str, **contents: str) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(path)
    for name, content in contents.items():
        (directory / name).write_text(content)


def packed(directory: Path, dockerfile: str = "Dockerfile") -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(pack_directory(directory, dockerfile))) as tar:
        return sorted(each.name for each in tar if not each.isdir())


@pytest.mark.parametrize(
    ("rules", "left_out", "kept"),
    [
        ("*.log", ["a.log"], ["sub/a.log", "a.logs"]),
        ("**/*.log", ["a.log", "sub/deep/a.log"], ["a.txt"]),
        ("node_modules", ["node_modules/x/y"], ["sub/node_modules/x"]),
        ("/build/", ["build/x"], ["sub/build"]),
        ("# *.md\n\n*.md\n!README.md", ["a.md"], ["README.md"]),
        ("docs\n!docs/keep", ["docs/a"], ["docs/keep", "docs/keep/b"]),
        ("a?c\n[xy].txt", ["abc", "x.txt"], ["abbc", "z.txt"]),
        ("*\n!src", ["a", "b/c"], ["src/main.py"]),
        ("a**b", ["a/x/b", "ab"], ["a/x/c"]),
    ],
)
def test_patterns_leave_out_what_docker_leaves_out(
    rules: str, left_out: list[str], kept: list[str]
) -> None:
    ignored = IgnoreRules(rules)
    assert [path for path in left_out if not ignored.matches(path)] == []
    assert [path for path in kept if ignored.matches(path)] == []


def test_the_archive_has_what_is_not_left_out_and_always_the_dockerfile(tmp_path: Path) -> None:
    write(tmp_path, "Dockerfile", "src/main.py", "src/main.pyc", ".git/config", "docs/a/b.md")
    write(tmp_path, **{".dockerignore": "Dockerfile\n.git\n**/*.pyc\ndocs\n!docs/a\n"})
    os.symlink("main.py", tmp_path / "src/link")

    assert packed(tmp_path) == [
        ".dockerignore",
        "Dockerfile",
        "docs/a/b.md",
        "src/link",
        "src/main.py",
    ]


def test_the_digest_follows_the_files_and_not_their_times(tmp_path: Path) -> None:
    def digest(dockerfile: str = "Dockerfile") -> str:
        return content_digest(pack_directory(tmp_path, dockerfile), dockerfile)

    write(tmp_path, "Dockerfile", "other.dockerfile", "src/main.py")
    first = digest()
    os.utime(tmp_path / "src/main.py", (1, 1))
    assert digest() == first
    assert digest("other.dockerfile") != first
    write(tmp_path, **{"src/main.py": "changed"})
    second = digest()
    (tmp_path / "src/main.py").chmod(0o755)
    assert len({first, second, digest()}) == 3


def test_a_context_that_is_too_large_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "Dockerfile", large="x" * 2**20)
    monkeypatch.setattr(context, "MAX_BYTES", 2**20)
    with pytest.raises(ContextUnusable, match=r"more than 1 MiB: name in \.dockerignore"):
        pack_directory(tmp_path, "Dockerfile")


def test_the_dockerfile_is_found_or_named(tmp_path: Path) -> None:
    with pytest.raises(ContextUnusable, match="has no Dockerfile or Containerfile"):
        find_dockerfile(tmp_path, None)
    with pytest.raises(ContextUnusable, match="is not a directory"):
        find_dockerfile(tmp_path / "nosuch", None)
    write(tmp_path, "Containerfile", "build/web.dockerfile")
    assert find_dockerfile(tmp_path, None) == "Containerfile"
    assert find_dockerfile(tmp_path, "build/web.dockerfile") == "build/web.dockerfile"
    assert find_dockerfile(tmp_path, str(tmp_path / "Containerfile")) == "Containerfile"
    with pytest.raises(ContextUnusable, match="nosuch does not exist"):
        find_dockerfile(tmp_path, "nosuch")
    with pytest.raises(ContextUnusable, match="is not in"):
        find_dockerfile(tmp_path / "build", str(tmp_path / "Containerfile"))
