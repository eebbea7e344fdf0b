"""Filters over blocks: who is left, and which rule rejected whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.arrays import RowsByKind
from broker.engine.shared import pair_state
from broker.engine.shared.evaluate import UNDECLARED, AnyFilter, RuleViews, evaluate, reason_codes
from broker.engine.shared.filter_cache import Evaluation
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.gdpconfig.tuning import Tuning
from broker.rules.contract import JobPairs, TuningView
from tests.engine.toy_facts import toy_facts
from tests.engine.toy_rules import KeepAmong, Toy, mask
from tests.rules.builders import make_queues, make_tasks

ALL = mask([1, 1, 1], [1, 1, 1])


@pytest.fixture(params=["block", "list"], autouse=True, scope="module")
def narrowing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test on whole blocks, and on the list of the pairs that are left from the first rule on."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "list":
            patched.setattr(pair_state, "LEAST_PAIRS", 0)
            patched.setattr(pair_state, "PAIRS_OF_BLOCK", 1)
        yield


def judged(
    filters: Sequence[AnyFilter], initial: Any = ALL, unusable: Sequence[str] = (), **columns: Any
) -> Evaluation:
    chunks, queues = np.shape(initial)
    tunings = {rule.name: Tuning.defaults().only(()) for rule in filters}
    tasks = make_tasks(chunks, jeditaskid=list(range(chunks)))
    candidates = make_queues(queues, name=[f"Q{index}" for index in range(queues)])
    facts = toy_facts(initial, **columns)
    pairs = JobPairs(tasks, candidates, facts, UNDECLARED, np.arange(chunks), np.arange(queues))
    return evaluate(filters, pairs, RuleViews(tunings), frozenset(unusable))


def test_no_filters() -> None:
    found = judged([], mask([1, 0, 1]))
    assert found.feasible.tolist() == [[True, False, True]]
    assert found.reason.tolist() == [[FEASIBLE, NOT_A_CANDIDATE, FEASIBLE]]


def test_the_first_rule_that_rejects_for_good_decides() -> None:
    found = judged([Toy("a", mask([0, 1, 1])), Toy("b", mask([0, 0, 1]))])
    assert found.reason.tolist() == [[0, 1, FEASIBLE]] * 2
    assert found.feasible.tolist() == [[False, False, True]] * 2


def test_of_rules_that_reject_for_now_the_last_decides() -> None:
    filters = [Toy(name, keep, kind="temporary") for name, keep in (("a", mask([0, 0, 1])), ("b", mask([0, 1, 1])))]
    assert judged(filters).reason.tolist() == [[1, 0, FEASIBLE]] * 2


@pytest.mark.parametrize("good_first", [True, False])
def test_for_good_wins_over_for_now(good_first: bool) -> None:
    filters = [Toy("good", mask([0, 1, 1])), Toy("now", mask([0, 0, 1]), kind="temporary")]
    order = filters if good_first else filters[::-1]
    found = judged(order)
    assert found.reason.tolist() == [[order.index(filters[0]), order.index(filters[1]), FEASIBLE]] * 2
    assert found.feasible.tolist() == [[False, False, True]] * 2


def test_a_rule_that_comes_after_temporary_ones_sees_only_whom_they_left() -> None:
    now = Toy("now", mask([0, 1, 1]), kind="temporary")
    late = Toy("late", mask([0, 0, 1]), after_temporary=True)
    assert judged([now, late]).reason.tolist() == [[0, 1, FEASIBLE]] * 2
    assert judged([now, late]).feasible.tolist() == [[False, False, True]] * 2
    again = Toy("again", mask([0, 1, 1]), kind="temporary")
    assert judged([now, late, again]).reason.tolist() == [[0, 1, FEASIBLE]] * 2


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_an_answer_of_any_shape_that_broadcasts(shape: tuple[int, int]) -> None:
    assert (judged([Toy("a", np.zeros(shape, np.bool_))]).reason == 0).all()
    assert judged([Toy("a", np.ones(shape, np.bool_))]).feasible.all()


def test_a_rule_looks_only_at_the_chunks_it_applies_to() -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        # columns are those of the chunk that is looked at
        assert tasks.jeditaskid.tolist() == [[1]]
        assert facts.initial.shape == (1, 3)
        assert facts.n_pilots.shape == (1, 3)
        return mask([0, 1, 0])

    found = judged([Toy("a", keep, applies=mask([0], [1]))])
    assert found.reason.tolist() == [[FEASIBLE] * 3, [0, FEASIBLE, 0]]


@pytest.mark.parametrize("applies", [mask([0], [0]), mask([0])])
def test_a_rule_that_applies_to_no_chunk_is_not_called(applies: Any) -> None:
    found = judged([Toy("a", RuntimeError("called"), applies=applies)])
    assert found.feasible.all()
    assert found.faults == ()


@pytest.mark.parametrize("applies", [mask([1], [1]), mask([1]), None])
def test_a_rule_that_applies_to_all(applies: Any) -> None:
    assert not judged([Toy("a", mask([0]), applies=applies)]).feasible.any()


@pytest.mark.parametrize("applies", [None, mask([1], [0])])
def test_an_answer_by_kind(applies: Any) -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> RowsByKind:
        rows = np.array([1, 0])[: len(tasks.jeditaskid)]
        return RowsByKind(mask([1, 0], [0, 1]), rows, np.array([0, 1, 1]))

    found = judged([Toy("before", mask([1, 1, 0], [1, 1, 1])), Toy("a", keep, applies=applies, unknown=keep)])
    second = [FEASIBLE] * 3 if applies is not None else [3, 1, 1]
    assert found.reason.tolist() == [[1, 3, 0], second]
    assert found.faults == ()


@pytest.mark.parametrize(
    "wrong", [RowsByKind(np.ones((2, 3))), RowsByKind(mask([1, 1])), RowsByKind(mask([1], [1], [1]))]
)
def test_an_answer_by_kind_that_is_no_mask_of_the_block(wrong: RowsByKind) -> None:
    found = judged([Toy("a", wrong, unknown_policy="keep")])
    assert "not with a mask" in found.faults[0].error
    assert found.feasible.all()


class Pairwise(Toy):
    pair_by_pair = True


class Derived(Pairwise):
    """May look at whole rows."""


def test_a_class_derived_from_a_rule_that_judges_pair_by_pair_is_asked_about_the_block() -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        assert candidates.name.shape == (1, 3)
        return mask([1, 0, 1])

    assert judged([Derived("derived", keep)]).feasible.tolist() == [[True, False, True]] * 2


def test_a_rule_is_not_asked_about_no_pairs() -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        return np.asarray(facts.n_pilots >= facts.n_pilots.max())

    rules = [Toy("nobody", mask([0])), Pairwise("late", keep)]
    assert judged(rules).faults == ()
    # also where none of the chunks that it looks at has any left
    assert judged([Toy("some", mask([0], [1])), Pairwise("late", keep, applies=mask([1], [0]))]).faults == ()


def test_a_rule_that_judges_pair_by_pair_is_asked_about_the_pairs_that_are_left() -> None:
    asked: list[Any] = []

    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        asked.append((tasks.jeditaskid, candidates.name, facts.n_pilots, facts.has_nucleus, facts.now_s))
        return np.asarray(facts.n_pilots > 2)

    first = Toy("first", mask([0, 1, 1], [1, 0, 1]))
    late = Pairwise("late", keep, applies=mask([1], [0]))
    again = Pairwise("again", keep)
    found = judged([first, late, again], n_pilots=np.array([[1.0, 2.0, 3.0]]))
    assert found.reason.tolist() == [[0, 1, FEASIBLE], [2, 0, FEASIBLE]]
    shapes = [[np.shape(value) for value in some] for some in asked]
    if pair_state.LEAST_PAIRS:
        assert shapes == [[(1, 1), (1, 3), (1, 3), (1, 1), ()], [(2, 1), (1, 3), (1, 3), (2, 1), ()]]
    else:
        assert shapes == [[(3, 1)] * 4 + [()]] * 2
        # a new list is made when half of the pairs are left
        assert asked[0][1].tolist() == [["Q0"], ["Q1"], ["Q2"]]
        assert asked[1][0].tolist() == [[0], [1], [1]]


def test_temporary_and_applies_together() -> None:
    rule = Toy("a", mask([0]), kind="temporary", applies=mask([1], [0]))
    found = judged([rule, Toy("b", mask([0, 1, 1]))])
    assert found.reason.tolist() == [[1, 0, 0], [1, FEASIBLE, FEASIBLE]]


def test_a_group_filter_counts_those_rejected_for_now_as_passing() -> None:
    group = KeepAmong("group", lambda alive: alive.any(axis=1, keepdims=True) & np.array([[False, True, True]]))
    filters = [Toy("good", mask([1, 0, 1])), Toy("now", mask([1, 1, 0]), kind="temporary"), group]
    found = judged(filters)
    assert group.seen == [[[True, False, True]] * 2]
    assert found.reason.tolist() == [[2, 0, 1]] * 2


def test_a_group_filter_on_some_chunks() -> None:
    group = KeepAmong("group", lambda alive: np.zeros_like(alive))
    group.applies = lambda pairs: mask([0], [1])  # type: ignore[method-assign]
    found = judged([Toy("good", mask([1, 0, 1])), group])
    assert group.seen == [[[True, False, True]]]
    assert found.feasible.tolist() == [[True, False, True], [False] * 3]


@pytest.mark.parametrize(
    ("policy", "kind", "reason", "feasible"),
    [
        ("reject", "persistent", [1, 0, 1], [False, False, False]),
        ("keep", "persistent", [FEASIBLE, 0, FEASIBLE], [True, False, True]),
        ("reject", "temporary", [1, 0, 1], [False, False, False]),
        ("keep", "temporary", [FEASIBLE, 0, FEASIBLE], [True, False, True]),
    ],
)
def test_what_cannot_be_known_follows_the_policy_of_the_rule(
    policy: str, kind: str, reason: list[int], feasible: list[bool]
) -> None:
    keep, unknown = mask([0, 0, 1]), mask([1, 0, 1])
    found = judged([Toy("a", keep, kind=kind, unknown=unknown, unknown_policy=policy)])
    assert found.reason.tolist() == [reason] * 2
    assert found.feasible.tolist() == [feasible] * 2
    assert reason_codes([Toy("a", keep)])[1] == "unknown_a"


@pytest.mark.parametrize("applies", [None, mask([1], [0])])
@pytest.mark.parametrize(("policy", "kept"), [("reject", False), ("keep", True)])
def test_a_source_that_cannot_be_used(policy: str, kept: bool, applies: Any) -> None:
    rule = Toy("a", RuntimeError("called"), applies=applies, sources=("links", "jobs"), unknown_policy=policy)
    found = judged([rule], unusable=["links"])
    assert found.feasible.tolist() == [[kept] * 3, [kept or applies is not None] * 3]
    assert found.faults == ()
    if not kept:
        assert found.reason[0].tolist() == [1, 1, 1]
    assert judged([Toy("a", mask([1]), sources=("links",))], unusable=["jobs"]).feasible.all()


def test_a_rule_that_needs_no_source_for_its_tuning_is_asked_all_the_same() -> None:
    class Closed(Toy):
        def needs(self, tuning: TuningView) -> tuple[str, ...]:
            return ()

    found = judged([Closed("a", mask([0, 1, 1]), sources=("links",), unknown_policy="keep")], unusable=["links"])
    assert found.feasible.tolist() == [[False, True, True]] * 2
    assert found.reason[0].tolist()[0] == 0


BROKEN: dict[str, Any] = {
    "raises": ValueError("no such column"),
    "ends the program": SystemExit(7),
    "numbers": np.ones((2, 3)),
    "a number": 1.0,
    "nothing": None,
    "another shape": np.ones((2, 4), np.bool_),
    "more rows": np.ones((5, 3), np.bool_),
    "another dimension": np.ones((1, 2, 3), np.bool_),
    "texts": np.array([["a"]], dtype=object),
}


@pytest.mark.parametrize("place", ["keep", "applies", "unknown"])
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_isolated_and_noted(place: str, broken: Any) -> None:
    if broken is None and place != "keep":
        return  # nothing is a good answer there
    answers = {"keep": mask([1]), place: broken}
    for policy, feasible in (("reject", [False] * 3), ("keep", [False, True, True])):
        rules = [
            Toy("before", mask([0, 1, 1])),
            Toy("broken", answers["keep"], unknown_policy=policy, **{k: v for k, v in answers.items() if k != "keep"}),
            Toy("after", mask([1])),
        ]
        found = judged(rules)
        assert [fault.rule for fault in found.faults] == ["broken"]
        # a rule that cannot say to whom it applies is asked about everybody
        assert found.feasible.tolist() == [feasible if place != "applies" else [False, True, True]] * 2
        assert found.reason[0, 0] == 0
        if place != "applies" and policy == "reject":
            assert found.reason.tolist() == [[0, 1 + 3, 1 + 3]] * 2


def test_a_broken_rule_rejects_only_the_chunks_it_applies_to() -> None:
    found = judged([Toy("a", KeyError("x"), applies=mask([1], [0]))])
    assert found.feasible.tolist() == [[False] * 3, [True] * 3]
    assert found.faults[0].error == "KeyError: 'x'"


def test_a_broken_group_filter() -> None:
    found = judged([KeepAmong("group", lambda alive: alive.astype(float), unknown_policy="keep")])
    assert found.feasible.all()
    assert "float64" in found.faults[0].error


def test_a_long_error_is_cut() -> None:
    assert len(judged([Toy("a", ValueError("x" * 10_000))]).faults[0].error) == 200


MASKS = st.lists(st.integers(0, 1), min_size=6, max_size=6)


@given(MASKS, st.lists(st.tuples(MASKS, MASKS, st.booleans(), st.booleans(), st.booleans()), max_size=5))
def test_against_rules_taken_one_by_one(initial: list[int], rules: list[Any]) -> None:
    start = np.array(initial, dtype=bool).reshape(2, 3)
    filters = [
        Toy(
            f"r{index}",
            np.array(keep, dtype=bool).reshape(2, 3),
            kind="temporary" if temporary else "persistent",
            unknown=np.array(unknown, dtype=bool).reshape(2, 3) if has_unknown else None,
            unknown_policy="reject" if reject else "keep",
        )
        for index, (keep, unknown, temporary, has_unknown, reject) in enumerate(rules)
    ]
    expected = np.full((2, 3), NOT_A_CANDIDATE)
    for chunk, queue in np.argwhere(start):
        expected[chunk, queue] = FEASIBLE
        for index, (keep, unknown, temporary, has_unknown, reject) in enumerate(rules):
            at = 3 * chunk + queue
            missing = has_unknown and unknown[at]
            if (missing and not reject) or (keep[at] and not missing):
                continue
            expected[chunk, queue] = index + (len(rules) if missing else 0)
            if not temporary:
                break
    found = judged(filters, start)
    assert found.reason.tolist() == expected.tolist()
    assert found.feasible.tolist() == (expected == FEASIBLE).tolist()


@pytest.mark.parametrize(("count", "kind"), [(1, np.int8), (64, np.int8), (65, np.int16), (300, np.int16)])
def test_the_small_type_of_the_reasons_holds_every_index(count: int, kind: type[np.generic]) -> None:
    idle = [Toy(f"idle{index}", mask([1, 1, 1])) for index in range(count - 1)]
    last = Toy("last", mask([0, 1, 1]), kind="temporary", unknown=mask([0, 1, 0]))
    found = judged([*idle, last])
    assert found.reason.dtype == kind
    # the largest index there is: the last rule, that could not judge
    assert found.reason.tolist() == [[count - 1, 2 * count - 1, FEASIBLE]] * 2
    assert judged([last, *idle]).reason.tolist() == [[0, count, FEASIBLE]] * 2
    assert reason_codes([*idle, last])[2 * count - 1] == "unknown_last"
