"""Whether the project that was named exists, as far as the platform tells.

Asked only after a project's plane has answered that it knows nothing of what every project
has: the plane may be that of a platform without it, or there is no such project.
"""

from __future__ import annotations

from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import Remark, Suggestion, command
from datum_compute.cli.tables import PROJECTS
from datum_compute.client import errors

MOST_NAMED = 10


def check_project(context: Context) -> None:
    """Raise where the platform lists projects and this is none of them."""
    root = context.target.root()
    if root is None:
        return
    try:
        known = sorted(str(each["metadata"]["name"]) for each in root.list(PROJECTS))
    except errors.ClientError:
        return  # not ours to see
    project = context.target.project
    if project in known:
        return
    named = ", ".join(known[:MOST_NAMED]) + (", …" if len(known) > MOST_NAMED else "")
    raise CommandError(
        f'project "{project}" not found; there are {named or "none"}',
        _suggestion(project, known),
        exit_code=Exit.NOT_FOUND,
        code="NotFound",
    )


def _suggestion(project: str, known: list[str]) -> Suggestion:
    import difflib

    nearest = difflib.get_close_matches(project, known, n=1) or known
    if not nearest:
        return Remark("check --project")
    return command("workloads", "--project", nearest[0])
