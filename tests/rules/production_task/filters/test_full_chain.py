"""Which tasks may use bare nuclei, and which must follow their parent."""

from __future__ import annotations

import pytest

from broker.rules.production_task.filters.full_chain import FullChain
from tests.rules.nucleus.nucleus_builders import check, observed, passes

NONE, ONLY, REQUIRE, CAPABLE = 0, 1, 2, 3
BARE_NONE, BARE_ONLY, BARE_ALLOW = 0, 1, 2
FREE = [
    (NONE, BARE_NONE, True),
    (NONE, BARE_ONLY, False),
    (NONE, BARE_ALLOW, True),
    (ONLY, BARE_NONE, False),
    (ONLY, BARE_ONLY, True),
    (ONLY, BARE_ALLOW, False),
    (REQUIRE, BARE_NONE, False),
    (REQUIRE, BARE_ONLY, True),
    (REQUIRE, BARE_ALLOW, True),
    (CAPABLE, BARE_NONE, True),
    (CAPABLE, BARE_ONLY, False),
    (CAPABLE, BARE_ALLOW, True),
]
AT_PARENT = [
    (ONLY, BARE_ONLY, True),
    (ONLY, BARE_ALLOW, False),
    (REQUIRE, BARE_ONLY, True),
    (REQUIRE, BARE_ALLOW, True),
    (CAPABLE, BARE_ONLY, True),
    (CAPABLE, BARE_ALLOW, True),
]


@pytest.mark.parametrize(("chain", "bare", "keep"), FREE)
def test_without_a_parent_on_a_bare_nucleus(chain: int, bare: int, keep: bool) -> None:
    check(FullChain(), keep, {"full_chain": chain, "bare": bare})


@pytest.mark.parametrize(("chain", "bare", "keep"), AT_PARENT)
def test_at_the_nucleus_of_the_parent(chain: int, bare: int, keep: bool) -> None:
    check(FullChain(), keep, {"full_chain": chain, "bare": bare, "bound_to": 0})


@pytest.mark.parametrize("chain", [ONLY, REQUIRE, CAPABLE])
@pytest.mark.parametrize("bare", [BARE_NONE, BARE_ONLY, BARE_ALLOW])
def test_a_nucleus_other_than_that_of_the_parent_is_rejected(chain: int, bare: int) -> None:
    columns = {"full_chain": chain, "bare": bare, "bound_to": 1, "position": [0]}
    assert not passes(FullChain(), columns).item()


def test_the_observation_names_task_and_nucleus() -> None:
    observation = observed(
        FullChain(), {"full_chain": CAPABLE, "bare": BARE_ONLY, "parent_nucleus": "P", "bound_to": 1}
    )
    assert observation.inputs == {
        "fullChain": "capable",
        "bareNucleus": "only",
        "parent_nucleus": "P",
        "must_follow_parent": True,
    }
