"""Rewrites: how a plan may differ from the text of its query and still mean the same; one rule a file.

Each rule says when it holds. `plan.fitting` applies them when a plan is checked against its query, and refuses by the
name of the rule what does not hold.
"""

from midstream.plan.rules.distinct_below_join import DistinctBelowJoin, Needed, find_needed
from midstream.plan.rules.reordered_differences import ReorderedDifferences

__all__ = ["DistinctBelowJoin", "Needed", "ReorderedDifferences", "find_needed"]
