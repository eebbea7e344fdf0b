"""Filters over blocks: the surviving candidates and the rule behind each rejection."""

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
    """Run each test on whole blocks, and on the list of remaining pairs from the first rule on."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "list":
            patched.setattr(pair_state, "LEAST_PAIRS", 0)
            patched.setattr(pair_state, "PAIRS_OF_BLOCK", 1)
        yield


def judge(filters: Sequence[AnyFilter], initial: Any = ALL, unusable: Sequence[str] = (), **columns: Any) -> Evaluation:
    chunks, queues = np.shape(initial)
    tunings = {rule.name: Tuning.defaults().only(()) for rule in filters}
    tasks = make_tasks(chunks, jeditaskid=list(range(chunks)))
    candidates = make_queues(queues, name=[f"Q{index}" for index in range(queues)])
    facts = toy_facts(initial, **columns)
    pairs = JobPairs(tasks, candidates, facts, UNDECLARED, np.arange(chunks), np.arange(queues))
    return evaluate(filters, pairs, RuleViews(tunings), frozenset(unusable))


def test_no_filters() -> None:
    evaluation = judge([], mask([1, 0, 1]))
    assert evaluation.feasible.tolist() == [[True, False, True]]
    assert evaluation.reason.tolist() == [[FEASIBLE, NOT_A_CANDIDATE, FEASIBLE]]


def test_the_first_persistent_rejection_decides() -> None:
    evaluation = judge([Toy("a", mask([0, 1, 1])), Toy("b", mask([0, 0, 1]))])
    assert evaluation.reason.tolist() == [[0, 1, FEASIBLE]] * 2
    assert evaluation.feasible.tolist() == [[False, False, True]] * 2


def test_the_last_temporary_rejection_decides() -> None:
    filters = [Toy(name, keep, kind="temporary") for name, keep in (("a", mask([0, 0, 1])), ("b", mask([0, 1, 1])))]
    assert judge(filters).reason.tolist() == [[1, 0, FEASIBLE]] * 2


@pytest.mark.parametrize("good_first", [True, False])
def test_a_persistent_rejection_wins_over_a_temporary_one(good_first: bool) -> None:
    filters = [Toy("good", mask([0, 1, 1])), Toy("now", mask([0, 0, 1]), kind="temporary")]
    order = filters if good_first else filters[::-1]
    evaluation = judge(order)
    assert evaluation.reason.tolist() == [[order.index(filters[0]), order.index(filters[1]), FEASIBLE]] * 2
    assert evaluation.feasible.tolist() == [[False, False, True]] * 2


def test_a_rule_after_temporary_ones_sees_only_the_survivors() -> None:
    now = Toy("now", mask([0, 1, 1]), kind="temporary")
    late = Toy("late", mask([0, 0, 1]), after_temporary=True)
    assert judge([now, late]).reason.tolist() == [[0, 1, FEASIBLE]] * 2
    assert judge([now, late]).feasible.tolist() == [[False, False, True]] * 2
    again = Toy("again", mask([0, 1, 1]), kind="temporary")
    assert judge([now, late, again]).reason.tolist() == [[0, 1, FEASIBLE]] * 2


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_an_answer_of_any_shape_that_broadcasts(shape: tuple[int, int]) -> None:
    assert (judge([Toy("a", np.zeros(shape, np.bool_))]).reason == 0).all()
    assert judge([Toy("a", np.ones(shape, np.bool_))]).feasible.all()


def test_a_rule_sees_only_the_chunks_it_applies_to() -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        # the columns hold only the chunk that the rule applies to
        assert tasks.jeditaskid.tolist() == [[1]]
        assert facts.initial.shape == (1, 3)
        assert facts.n_pilots.shape == (1, 3)
        return mask([0, 1, 0])

    evaluation = judge([Toy("a", keep, applies=mask([0], [1]))])
    assert evaluation.reason.tolist() == [[FEASIBLE] * 3, [0, FEASIBLE, 0]]


@pytest.mark.parametrize("applies", [mask([0], [0]), mask([0])])
def test_a_rule_that_applies_to_no_chunk_is_not_called(applies: Any) -> None:
    evaluation = judge([Toy("a", RuntimeError("called"), applies=applies)])
    assert evaluation.feasible.all()
    assert evaluation.faults == ()


@pytest.mark.parametrize("applies", [mask([1], [1]), mask([1]), None])
def test_a_rule_that_applies_to_all(applies: Any) -> None:
    assert not judge([Toy("a", mask([0]), applies=applies)]).feasible.any()


@pytest.mark.parametrize("applies", [None, mask([1], [0])])
def test_an_answer_by_kind(applies: Any) -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> RowsByKind:
        rows = np.array([1, 0])[: len(tasks.jeditaskid)]
        return RowsByKind(mask([1, 0], [0, 1]), rows, np.array([0, 1, 1]))

    evaluation = judge([Toy("before", mask([1, 1, 0], [1, 1, 1])), Toy("a", keep, applies=applies, unknown=keep)])
    second = [FEASIBLE] * 3 if applies is not None else [3, 1, 1]
    assert evaluation.reason.tolist() == [[1, 3, 0], second]
    assert evaluation.faults == ()


@pytest.mark.parametrize(
    "wrong", [RowsByKind(np.ones((2, 3))), RowsByKind(mask([1, 1])), RowsByKind(mask([1], [1], [1]))]
)
def test_an_answer_by_kind_that_is_no_mask_of_the_block(wrong: RowsByKind) -> None:
    evaluation = judge([Toy("a", wrong, unknown_policy="keep")])
    assert "not with a mask" in evaluation.faults[0].error
    assert evaluation.feasible.all()


class Pairwise(Toy):
    pair_by_pair = True


class Derived(Pairwise):
    """May look at whole rows."""


def test_a_subclass_of_a_pairwise_rule_judges_the_whole_block() -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        assert candidates.name.shape == (1, 3)
        return mask([1, 0, 1])

    assert judge([Derived("derived", keep)]).feasible.tolist() == [[True, False, True]] * 2


def test_a_rule_is_not_called_without_pairs() -> None:
    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        return np.asarray(facts.n_pilots >= facts.n_pilots.max())

    rules = [Toy("nobody", mask([0])), Pairwise("late", keep)]
    assert judge(rules).faults == ()
    # also if no candidate is left in the chunks that it applies to
    assert judge([Toy("some", mask([0], [1])), Pairwise("late", keep, applies=mask([1], [0]))]).faults == ()


def test_a_pairwise_rule_judges_the_remaining_pairs() -> None:
    calls: list[Any] = []

    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        calls.append((tasks.jeditaskid, candidates.name, facts.n_pilots, facts.has_nucleus, facts.now_s))
        return np.asarray(facts.n_pilots > 2)

    first = Toy("first", mask([0, 1, 1], [1, 0, 1]))
    late = Pairwise("late", keep, applies=mask([1], [0]))
    again = Pairwise("again", keep)
    evaluation = judge([first, late, again], n_pilots=np.array([[1.0, 2.0, 3.0]]))
    assert evaluation.reason.tolist() == [[0, 1, FEASIBLE], [2, 0, FEASIBLE]]
    shapes = [[np.shape(value) for value in call] for call in calls]
    if pair_state.LEAST_PAIRS:
        assert shapes == [[(1, 1), (1, 3), (1, 3), (1, 1), ()], [(2, 1), (1, 3), (1, 3), (2, 1), ()]]
    else:
        assert shapes == [[(3, 1)] * 4 + [()]] * 2
        # a new list is made when half of the pairs are left
        assert calls[0][1].tolist() == [["Q0"], ["Q1"], ["Q2"]]
        assert calls[1][0].tolist() == [[0], [1], [1]]


def test_temporary_and_applies_together() -> None:
    rule = Toy("a", mask([0]), kind="temporary", applies=mask([1], [0]))
    evaluation = judge([rule, Toy("b", mask([0, 1, 1]))])
    assert evaluation.reason.tolist() == [[1, 0, 0], [1, FEASIBLE, FEASIBLE]]


def test_a_group_filter_counts_temporary_rejections_as_passing() -> None:
    group = KeepAmong("group", lambda alive: alive.any(axis=1, keepdims=True) & np.array([[False, True, True]]))
    filters = [Toy("good", mask([1, 0, 1])), Toy("now", mask([1, 1, 0]), kind="temporary"), group]
    evaluation = judge(filters)
    assert group.seen == [[[True, False, True]] * 2]
    assert evaluation.reason.tolist() == [[2, 0, 1]] * 2


def test_a_group_filter_on_some_chunks() -> None:
    group = KeepAmong("group", lambda alive: np.zeros_like(alive))
    group.applies = lambda pairs: mask([0], [1])  # type: ignore[method-assign]
    evaluation = judge([Toy("good", mask([1, 0, 1])), group])
    assert group.seen == [[[True, False, True]]]
    assert evaluation.feasible.tolist() == [[True, False, True], [False] * 3]


@pytest.mark.parametrize(
    ("policy", "kind", "reason", "feasible"),
    [
        ("reject", "persistent", [1, 0, 1], [False, False, False]),
        ("keep", "persistent", [FEASIBLE, 0, FEASIBLE], [True, False, True]),
        ("reject", "temporary", [1, 0, 1], [False, False, False]),
        ("keep", "temporary", [FEASIBLE, 0, FEASIBLE], [True, False, True]),
    ],
)
def test_unknown_values_follow_the_policy_of_the_rule(
    policy: str, kind: str, reason: list[int], feasible: list[bool]
) -> None:
    keep, unknown = mask([0, 0, 1]), mask([1, 0, 1])
    evaluation = judge([Toy("a", keep, kind=kind, unknown=unknown, unknown_policy=policy)])
    assert evaluation.reason.tolist() == [reason] * 2
    assert evaluation.feasible.tolist() == [feasible] * 2
    assert reason_codes([Toy("a", keep)])[1] == "unknown_a"


@pytest.mark.parametrize("applies", [None, mask([1], [0])])
@pytest.mark.parametrize(("policy", "feasible"), [("reject", False), ("keep", True)])
def test_an_unusable_source(policy: str, feasible: bool, applies: Any) -> None:
    rule = Toy("a", RuntimeError("called"), applies=applies, sources=("links", "jobs"), unknown_policy=policy)
    evaluation = judge([rule], unusable=["links"])
    assert evaluation.feasible.tolist() == [[feasible] * 3, [feasible or applies is not None] * 3]
    assert evaluation.faults == ()
    if not feasible:
        assert evaluation.reason[0].tolist() == [1, 1, 1]
    assert judge([Toy("a", mask([1]), sources=("links",))], unusable=["jobs"]).feasible.all()


def test_a_rule_that_needs_no_source_for_its_tuning_is_evaluated_anyway() -> None:
    class Closed(Toy):
        def needs(self, tuning: TuningView) -> tuple[str, ...]:
            return ()

    evaluation = judge([Closed("a", mask([0, 1, 1]), sources=("links",), unknown_policy="keep")], unusable=["links"])
    assert evaluation.feasible.tolist() == [[False, True, True]] * 2
    assert evaluation.reason[0].tolist()[0] == 0


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


@pytest.mark.parametrize(
    ("place", "broken"),
    [
        pytest.param(place, answer, id=f"{place}-{name}")
        for place in ("keep", "applies", "unknown")
        for name, answer in BROKEN.items()
        if place == "keep" or answer is not None  # elsewhere None is a valid answer
    ],
)
def test_a_broken_rule_is_isolated_and_noted(place: str, broken: Any) -> None:
    answers = {"keep": mask([1]), place: broken}
    for policy, feasible in (("reject", [False] * 3), ("keep", [False, True, True])):
        rules = [
            Toy("before", mask([0, 1, 1])),
            Toy("broken", answers["keep"], unknown_policy=policy, **{k: v for k, v in answers.items() if k != "keep"}),
            Toy("after", mask([1])),
        ]
        evaluation = judge(rules)
        assert [fault.rule for fault in evaluation.faults] == ["broken"]
        # a rule whose ``applies`` fails is evaluated for all chunks
        assert evaluation.feasible.tolist() == [feasible if place != "applies" else [False, True, True]] * 2
        assert evaluation.reason[0, 0] == 0
        if place != "applies" and policy == "reject":
            assert evaluation.reason.tolist() == [[0, 1 + 3, 1 + 3]] * 2


def test_a_broken_rule_rejects_only_the_chunks_it_applies_to() -> None:
    evaluation = judge([Toy("a", KeyError("x"), applies=mask([1], [0]))])
    assert evaluation.feasible.tolist() == [[False] * 3, [True] * 3]
    assert evaluation.faults[0].error == "KeyError: 'x'"


def test_a_broken_group_filter() -> None:
    evaluation = judge([KeepAmong("group", lambda alive: alive.astype(float), unknown_policy="keep")])
    assert evaluation.feasible.all()
    assert "float64" in evaluation.faults[0].error


def test_a_long_error_is_cut() -> None:
    assert len(judge([Toy("a", ValueError("x" * 10_000))]).faults[0].error) == 200


MASKS = st.lists(st.integers(0, 1), min_size=6, max_size=6)


@given(MASKS, st.lists(st.tuples(MASKS, MASKS, st.booleans(), st.booleans(), st.booleans()), max_size=5))
def test_against_rules_applied_one_by_one(initial: list[int], rules: list[Any]) -> None:
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
    evaluation = judge(filters, start)
    assert evaluation.reason.tolist() == expected.tolist()
    assert evaluation.feasible.tolist() == (expected == FEASIBLE).tolist()


@pytest.mark.parametrize(("count", "kind"), [(1, np.int8), (64, np.int8), (65, np.int16), (300, np.int16)])
def test_the_dtype_of_the_reasons_holds_every_index(count: int, kind: type[np.generic]) -> None:
    idle = [Toy(f"idle{index}", mask([1, 1, 1])) for index in range(count - 1)]
    last = Toy("last", mask([0, 1, 1]), kind="temporary", unknown=mask([0, 1, 0]))
    evaluation = judge([*idle, last])
    assert evaluation.reason.dtype == kind
    # the largest index: an unknown value of the last rule
    assert evaluation.reason.tolist() == [[count - 1, 2 * count - 1, FEASIBLE]] * 2
    assert judge([last, *idle]).reason.tolist() == [[0, count, FEASIBLE]] * 2
    assert reason_codes([*idle, last])[2 * count - 1] == "unknown_last"
