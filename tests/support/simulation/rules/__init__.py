"""Rules on commits by any process, between objects and between planes.

Each module has the rules of one subject, with their state. All of them allow decisions on a
view that was true within the grace, and no older one.
"""

from __future__ import annotations

from tests.support.simulation.commits import RuleSet
from tests.support.simulation.rules.copies import CopyRules
from tests.support.simulation.rules.data import DataRules
from tests.support.simulation.rules.deletions import DeletionRules
from tests.support.simulation.rules.quota import QuotaRules
from tests.support.simulation.rules.ranges import RangeRules
from tests.support.simulation.rules.reports import ReportRules
from tests.support.simulation.rules.waves import WaveRules


def all_rules(ordered: set[str]) -> list[RuleSet]:
    """``ordered``: uids of objects that a user deleted by hand; may grow at any time."""
    return [
        QuotaRules(ordered),
        CopyRules(ordered),
        DeletionRules(ordered),
        DataRules(ordered),
        ReportRules(),
        RangeRules(),
        WaveRules(),
    ]
