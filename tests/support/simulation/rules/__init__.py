"""What must never be committed, whoever wrote it: rules between objects and between planes.

Rules of one subject stand together in a module and remember what they need. All of them allow
for what was decided on a view that was true within the grace; none allows for more.
"""

from __future__ import annotations

from tests.support.simulation.commits import RuleSet
from tests.support.simulation.rules.copies import CopyRules
from tests.support.simulation.rules.deletions import DeletionRules
from tests.support.simulation.rules.quota import QuotaRules
from tests.support.simulation.rules.ranges import RangeRules
from tests.support.simulation.rules.reports import ReportRules


def all_rules(ordered: set[str]) -> list[RuleSet]:
    """``ordered``: uids of what a person deleted by hand; may grow at any time."""
    return [
        QuotaRules(ordered),
        CopyRules(ordered),
        DeletionRules(ordered),
        ReportRules(),
        RangeRules(),
    ]
