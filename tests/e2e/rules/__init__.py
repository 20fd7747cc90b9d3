"""What must never be committed, whoever wrote it: rules between objects and between planes.

Rules of one subject stand together in a module and remember what they need. All of them allow
for what was decided on a view that was true within the grace; none allows for more.
"""

from __future__ import annotations

from tests.e2e.planes import Rules
from tests.e2e.rules.copies import Copies
from tests.e2e.rules.endings import Endings
from tests.e2e.rules.quota import Quota
from tests.e2e.rules.ranges import Ranges
from tests.e2e.rules.reports import Reports


def all_rules(ordered: set[str]) -> list[Rules]:
    """``ordered``: uids of what a person deleted by hand; may grow at any time."""
    return [Quota(ordered), Copies(ordered), Endings(ordered), Reports(), Ranges()]
