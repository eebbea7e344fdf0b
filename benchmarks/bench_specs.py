"""What it takes to find the groups of waiting jobs that fit a node, by the number of groups.

Groups and nodes are random with few distinct values, so that many nearly fit. The CPU time is measured for making the
index, and for the first and the next look-up of a kind of node. Usage: ``python -m benchmarks.bench_specs [FOLDER]``.
"""

from __future__ import annotations

from time import process_time
from typing import Any

from benchmarks.measuring import asked_folder, report
from broker.matching.specs.index import SpecIndex
from tests.matching.specs.random_specs import Dice, random_job, random_node

GROUPS, NODES, SEED = (1_000, 10_000, 50_000), 300, 1


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    report(folder, "specs", [measure(groups, NODES) for groups in GROUPS], nodes=NODES, seed=SEED)


def measure(groups: int, nodes: int) -> dict[str, Any]:
    """Return the seconds to make the index, and the milliseconds for a node of a new kind and of a known kind."""
    dice = Dice(SEED)
    jobs, nodes_asking = [random_job(dice) for _ in range(groups)], [random_node(dice) for _ in range(nodes)]
    begin_s = process_time()
    index = SpecIndex(jobs)
    index_done_s = process_time()
    fitting_count = sum(int(index.fits(node).sum()) for node in nodes_asking)
    new_nodes_done_s = process_time()
    for node in nodes_asking:
        index.fits(node)
    return {
        "groups": groups,
        "index_s": index_done_s - begin_s,
        "new_node_ms": 1000 * (new_nodes_done_s - index_done_s) / nodes,
        "seen_node_ms": 1000 * (process_time() - new_nodes_done_s) / nodes,
        "fitting_groups": fitting_count / nodes,
    }


if __name__ == "__main__":
    main()
