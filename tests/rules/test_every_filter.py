"""Properties of every filter of every brokerage, on random tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agents.service.configuration import load_profile
from broker.brokerages.analysis_job.brokerage import PERSISTENT, TEMPORARY
from broker.brokerages.generic_job.brokerage import FILTERS as OF_GENERIC_JOBS
from broker.brokerages.production_job.brokerage import FILTERS as OF_JOBS
from broker.brokerages.production_task.brokerage import FILTERS as OF_TASKS
from broker.brokerages.profile import rules_of
from broker.domain.analysis import AnalysisFacts
from broker.engine.analysis.facts import PASS_FACTS
from broker.engine.shared import pair_state
from broker.engine.shared.evaluate import UNDECLARED, RuleViews, evaluate
from broker.engine.shared.pair_state import SurvivingPairs
from broker.rules.contract import AnalysisPairs, AnyPairs, Filter, GroupFilter, JobPairs, TaskPairs
from broker.snapshot.source_list import NAMES, OFFERED_SOURCES
from tests.rules.builders import holds, looks_at, pairs_of, passes, tuning_for
from tests.rules.nucleus.random_nuclei import random_nuclei
from tests.rules.random_tables import literals_in_tests, one_by_one, random_tables, reordered

CHUNKS, QUEUES = 3, 4


@dataclass(frozen=True)
class Brokerage:
    """The filters of a brokerage, their random tables, and a tuning under which each both keeps and rejects."""

    name: str
    pairs: type[AnyPairs]
    filters: Sequence[Any]
    tables: Callable[[int, int, int], tuple[Any, Any, Any]]
    tuning: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def examples(self) -> list[tuple[Any, Any, Any]]:
        """Forty sets of tables of eight chunks and eight candidates, made once for all filters."""
        return [_read_only(self.tables(seed, 8, 8)) for seed in range(40)]


def _read_only(tables: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    for table in tables:
        for column in vars(table).values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
    return tables


#: Values for keys that are off by default or far from the random tables, from the tests of the rules.
TUNING: dict[str, Any] = dict(literals_in_tests("TUNING", "."))
BROKERAGES = (
    Brokerage(
        "production_job",
        JobPairs,
        OF_JOBS,
        random_tables,
        {"WORK_SHORTAGE": True, "MAX_DISKIO_DEFAULT": 500, "NW_ACTIVE": True} | TUNING,
    ),
    Brokerage(
        "analysis_job",
        AnalysisPairs,
        (*PERSISTENT, *TEMPORARY),
        lambda seed, chunks, queues: random_tables(seed, chunks, queues, AnalysisFacts),
        {"MAX_DISKIO_DEFAULT": 500} | TUNING,
    ),
    Brokerage("production_task", TaskPairs, OF_TASKS, random_nuclei, TUNING),
    Brokerage("generic_job", JobPairs, OF_GENERIC_JOBS, random_tables, TUNING),
)


def is_alone(rule: Any) -> bool:
    """Whether the rule judges each candidate independently of the others."""
    return not isinstance(rule, GroupFilter)


def rules_as_in_panda(brokerage: Brokerage) -> list[Any]:
    """Return the filters to which the profile ``panda`` gives options, and those that it adds."""
    profile = load_profile("panda-gen" if brokerage.name == "generic_job" else "panda")
    chain = rules_of(profile, brokerage.name).chain
    filters = [rule for rule in chain if isinstance(rule, Filter | GroupFilter)]
    known = {rule.name for rule in brokerage.filters}
    return [rule for rule in filters if rule.chosen or rule.name not in known]


SEED = [pytest.param(entry, rule, id=f"{entry.name}-{rule.name}") for entry in BROKERAGES for rule in entry.filters]
PANDA = [
    pytest.param(entry, rule, id=f"{entry.name}-panda-{rule.name}")
    for entry in BROKERAGES
    for rule in rules_as_in_panda(entry)
]
EVERY = [*SEED, *PANDA]
#: Rules that reject nothing in this profile, and those that need a grid rather than tables to reject.
KEEPS_ALL = {
    "production_task-panda-status",
    "production_job-panda-output_scope",
    "production_job-queue_unhealthy",
    "analysis_job-queue_unhealthy",
    "production_job-task_fails_here",
    "analysis_job-task_fails_here",
    "production_job-retry_elsewhere",
    "analysis_job-retry_elsewhere",
}
ALONE = [case for case in EVERY if is_alone(case.values[1])]


@pytest.mark.parametrize(("brokerage", "rule"), ALONE)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_observations_and_single_pairs_agree_with_the_mask(brokerage: Brokerage, rule: Any, seed: int) -> None:
    tasks, candidates, facts = brokerage.tables(seed, CHUNKS, QUEUES)
    tuning = tuning_for(rule, **brokerage.tuning)
    mask = passes(rule, tasks, candidates, facts, tuning)
    for row, column, pair_tables in one_by_one(tasks, candidates, facts, CHUNKS, QUEUES):
        assert bool(passes(rule, *pair_tables, tuning).item()) == mask[row, column]
        if looks_at(rule, *pair_tables, tuning):
            observation = rule.observe(pairs_of(rule, *pair_tables, tuning))
            assert holds(observation) == mask[row, column], observation


@pytest.mark.parametrize(("brokerage", "rule"), EVERY)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_the_order_of_candidates_does_not_matter(
    brokerage: Brokerage, rule: Any, seed: int, data: st.DataObject
) -> None:
    tasks, candidates, facts = brokerage.tables(seed, CHUNKS, QUEUES)
    order = np.array(data.draw(st.permutations(range(QUEUES))))
    tuning = tuning_for(rule, **brokerage.tuning)
    permuted = reordered(candidates, facts, CHUNKS, order)
    mask = passes(rule, tasks, *permuted, tuning)
    assert (mask == passes(rule, tasks, candidates, facts, tuning)[:, order]).all()


@pytest.mark.parametrize(("brokerage", "rule"), [case for case in EVERY if case.values[1].pair_by_pair])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_pairs_in_a_list_are_judged_as_in_a_block(
    brokerage: Brokerage, rule: Any, seed: int, data: st.DataObject
) -> None:
    tables = brokerage.tables(seed, CHUNKS, QUEUES)
    cells = data.draw(st.lists(st.booleans(), min_size=CHUNKS * QUEUES, max_size=CHUNKS * QUEUES))
    surviving_pairs = SurvivingPairs.of_mask(np.array(cells, dtype=np.bool_).reshape(CHUNKS, QUEUES))
    pairs = pairs_of(rule, *tables, tuning_for(rule, **brokerage.tuning))
    for method in (rule.keep, rule.unknown):
        of_block, of_list = method(pairs), method(surviving_pairs.listed(pairs))
        assert (of_block is None) == (of_list is None)
        if of_block is not None:
            assert (
                np.broadcast_to(of_list, (len(surviving_pairs), 1))[:, 0].tolist()
                == surviving_pairs.of(of_block).tolist()
            )


@pytest.mark.parametrize(
    "rule", [rule for _, rule in (case.values for case in EVERY) if "same_in_passes" in vars(type(rule))]
)
def test_a_rule_that_is_the_same_in_all_passes_reads_no_fact_of_a_pass(rule: Any) -> None:
    tasks, candidates, facts = random_tables(1, CHUNKS, QUEUES, AnalysisFacts)
    pairs = pairs_of(rule, tasks, candidates, facts, tuning_for(rule, MAX_DISKIO_DEFAULT=500))
    methods = rule.applies, rule.keep, rule.unknown
    expected = [method(pairs) for method in methods]
    for name in PASS_FACTS:
        del vars(facts)[name]
    for method, answer in zip(methods, expected, strict=True):
        np.testing.assert_array_equal(method(pairs), answer)


@pytest.mark.slow
@pytest.mark.parametrize("brokerage", BROKERAGES, ids=lambda brokerage: brokerage.name)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([1, 2, 4]))
def test_listing_the_remaining_pairs_changes_no_result(brokerage: Brokerage, seed: int, share: int) -> None:
    views = RuleViews({rule.name: tuning_for(rule, **brokerage.tuning) for rule in brokerage.filters})
    tables = brokerage.tables(seed, 8, 8)
    pairs = brokerage.pairs(*tables, UNDECLARED, np.arange(8), np.arange(8))
    # results cached for other cycles are computed on whole blocks
    of_block = evaluate(brokerage.filters, pairs, views, known={})
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(pair_state, "LEAST_PAIRS", 0)
        monkeypatch.setattr(pair_state, "PAIRS_OF_BLOCK", share)
        of_list = evaluate(brokerage.filters, pairs, views)
    assert of_list.reason.tolist() == of_block.reason.tolist()
    assert of_list.feasible.tolist() == of_block.feasible.tolist()
    assert of_list.faults == of_block.faults == ()


@pytest.mark.parametrize("brokerage", BROKERAGES, ids=lambda brokerage: brokerage.name)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_the_order_of_rules_does_not_matter(brokerage: Brokerage, seed: int, data: st.DataObject) -> None:
    """The remaining candidates do not depend on the order of rules; the shown reason does."""
    rules = [rule for rule in brokerage.filters if is_alone(rule) and not rule.after_temporary]
    # all rules together leave hardly any candidate, so draw a few
    chosen = data.draw(st.lists(st.sampled_from(rules), unique_by=lambda rule: rule.name, max_size=5))
    shuffled = data.draw(st.permutations(chosen))
    tables = brokerage.tables(seed, CHUNKS, QUEUES)
    views = RuleViews({rule.name: tuning_for(rule, **brokerage.tuning) for rule in chosen})
    pairs = brokerage.pairs(*tables, UNDECLARED, np.arange(CHUNKS), np.arange(QUEUES))
    feasible = [evaluate(rules, pairs, views).feasible for rules in (chosen, shuffled)]
    assert (feasible[0] == feasible[1]).all()


@pytest.mark.parametrize(("brokerage", "rule"), [case for case in EVERY if case.id not in KEEPS_ALL])
def test_random_tables_are_both_kept_and_rejected(brokerage: Brokerage, rule: Any) -> None:
    tuning = tuning_for(rule, **brokerage.tuning)
    masks = np.stack([passes(rule, *tables, tuning) for tables in brokerage.examples])
    assert masks.any() and not masks.all()


@pytest.mark.parametrize(("brokerage", "rule"), EVERY)
def test_a_rule_declares_its_metadata(brokerage: Brokerage, rule: Any) -> None:
    assert rule.name == type(rule).__module__.rsplit(".", 1)[1]
    assert type(rule).__name__.lower() == rule.name.replace("_", "")
    assert rule.title and "\n" not in rule.title and len(rule.title) < 100
    assert rule.code and rule.provenance
    assert rule.kind in ("persistent", "temporary")
    assert "Source: " in (type(rule).__doc__ or "").replace("\n    ", " ")
    assert set(rule.sources) <= {*NAMES, *(source.name for source in OFFERED_SOURCES)}


@pytest.mark.parametrize("brokerage", BROKERAGES, ids=lambda brokerage: brokerage.name)
def test_names_are_unique(brokerage: Brokerage) -> None:
    assert len({rule.name for rule in brokerage.filters}) == len(brokerage.filters)
