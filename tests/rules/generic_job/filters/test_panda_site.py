"""The site that the parameters of a task name."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.filters.panda_site import PandaSite
from tests.rules.builders import Case, check, kept, rejected

POOLS = {"panda_site": [None, "A", "B", ""], "queue_atlas_site": [None, "A", "B"]}
CASES = [
    kept(panda_site="A", atlas_site="A"),
    rejected(panda_site="A", atlas_site="B"),
    rejected(panda_site="A", atlas_site=None),
    kept(panda_site=None, atlas_site="B"),
    kept(panda_site="", atlas_site="B"),
    kept(panda_site=None, atlas_site=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_panda_site(case: Case) -> None:
    check(PandaSite(), case)
