"""Facts of pairs are computed when a rule reads them, and only for the chunks of that rule."""

from __future__ import annotations

import numpy as np
import pytest

from broker.brokerages.production_job.brokerage import chain
from broker.domain.arrays import RowsByKind
from broker.domain.facts import JobFacts
from broker.engine.shared.evaluate import rows_of
from broker.rules.production_job.filters.full_chain import FullChain
from broker.rules.production_job.filters.status import Status
from tests.engine.toy_cycle import cycle, work

#: Facts of all pairs of a block; the others have an axis of length 1 and cost next to nothing.
OF_PAIRS = {
    *("site_admitted", "pool_admitted", "at_nucleus", "shares_storage", "storage_at_nucleus", "closeness"),
    *("link_queued", "throughput_mb_per_s", "defined", "assigned", "activated", "starting", "running"),
    *("running_equivalent", "running_cores", "starting_cores", "preferred_cpu_percent", "has_slots", "can_receive"),
    *("can_send", "available_bytes", "available_files", "available_tape_bytes", "available_tape_files", "all_local"),
}


def test_facts_that_no_rule_reads_are_not_computed() -> None:
    facts = cycle(work(3), [Status()]).evaluate_block(slice(1, 3)).facts
    assert not facts.read & OF_PAIRS
    assert facts.at_nucleus.shape == (2, 5)
    assert facts.read & OF_PAIRS == {"at_nucleus"}


def test_the_rules_of_production_leave_some_facts_unread() -> None:
    rules = chain()
    toy = cycle(work(2), rules.filters, rules.weights)
    facts = toy.evaluate_block(slice(1, 2)).facts
    assert facts.read & OF_PAIRS
    assert not facts.read & {"running_cores", "starting_cores", "defined", "activated", "site_admitted"}


def test_figures_are_stored_by_kind_and_never_for_each_pair() -> None:
    rules = chain()
    # the second chunk is boosted at its nucleus and reads the links of express chunks
    chunks = work(3, currentpriority=[100, 1000, 100])
    toy = cycle(chunks, rules.filters, rules.weights, tuning={"NW_ACTIVE": True})
    block = toy.evaluate_block(slice(0, 3))
    factors = [factor if isinstance(factor, np.ndarray) else factor.table for factor in block.factors]
    figures = [array for array in (*vars(block.facts).values(), *factors) if isinstance(array, np.ndarray)]
    assert len(figures) > len(factors)
    assert not [
        array for array in figures if array.dtype == np.float64 and array.shape == block.evaluation.feasible.shape
    ]
    boost = block.factors[[rule.name for rule in rules.weights].index("nucleus_boost")]
    assert isinstance(boost, RowsByKind)
    assert boost.kinds.tolist() == [0, 1, 0]
    assert boost.every.max(axis=1).tolist() == [1.0, 100.0, 1.0]


def test_candidates_of_one_storage_have_one_column_of_links() -> None:
    toy = cycle(work(2, processingtype=["urgent", "simul"]))
    facts, storages = toy.evaluate_block(slice(0, 2)).facts, toy.snapshot.queues.storage_site
    for name in ("closeness", "link_queued", "throughput_mb_per_s", "storage_at_nucleus"):
        by_kind = facts.by_kind(name)
        assert by_kind.table.shape[1] == len(set(storages.tolist())) < len(storages), name
        np.testing.assert_array_equal(by_kind.every, by_kind.table[by_kind.kinds][:, by_kind.column], err_msg=name)


def test_a_rule_for_few_chunks_computes_no_facts_for_the_others() -> None:
    lengths: list[int] = []

    class CountingRows(RowsByKind):
        def of(self, rows: slice | np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> RowsByKind:
            part = super().of(rows)
            lengths.append(len(part.kind))
            return part

    every = cycle(work(4), [FullChain()]).evaluate_block(slice(0, 4)).facts
    later = {"at_nucleus": CountingRows(np.array([[False, True]]), np.zeros(4, dtype=np.int64))}
    names = set(JobFacts.__dataclass_fields__) - later.keys()
    facts = JobFacts.gathered({name: getattr(every, name) for name in names}, later)
    assert rows_of(facts, np.array([1, 3])).at_nucleus.tolist() == [[False, True]] * 2
    assert lengths == [2]
    assert "at_nucleus" not in facts.read


def test_pairs_of_a_fact_read_the_same_however_it_is_stored() -> None:
    facts = cycle(work(3)).evaluate_block(slice(0, 3)).facts
    kinds = RowsByKind(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1, 0]), np.array([0, 1, 1, 0, 1]))
    chunk, candidate = np.array([0, 1, 2, 1]), np.array([4, 0, 1, 2])
    ways = {
        "by kind": facts.but({}, {"defined": kinds}),
        "by a call": facts.but({}, {"defined": lambda: kinds}),
        "made": facts.but({"defined": kinds.every}),
    }
    for way, variant in ways.items():
        assert variant.at("defined", chunk, candidate).tolist() == [2.0, 3.0, 2.0, 4.0], way
    defined = facts.defined
    alike = facts.but({"assigned": np.array([[5.0]])}, {"starting": RowsByKind(np.array([[6.0], [7.0]]), kinds.kind)})
    assert alike.at("assigned", chunk, candidate).tolist() == [5.0] * 4
    assert alike.at("starting", chunk, candidate).tolist() == [6.0, 7.0, 6.0, 7.0]
    assert alike.defined is defined


def test_facts_refuse_unknown_names_and_missing_columns() -> None:
    facts = cycle().evaluate_block(slice(0, 1)).facts
    with pytest.raises(AttributeError, match="JobFacts has no fact at_nucleu"):
        _ = getattr(facts, "at_nucleu")  # noqa: B009 - the type checker would reject the attribute
    with pytest.raises(TypeError, match=r"JobFacts without .*at_nucleus"):
        JobFacts.gathered({"now_s": 0.0}, {})
