"""What it takes to find the groups of waiting jobs that fit a node, by the number of groups.

Groups and nodes are random, of few values, so that many nearly fit. Processor time is measured: of making the index,
of the first look at a kind of node, and of the next. Usage: ``python -m benchmarks.bench_specs [FOLDER]``.
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
    """Seconds to make the index, and milliseconds for a node of a new kind and of one that was seen."""
    dice = Dice(SEED)
    jobs, asking = [random_job(dice) for _ in range(groups)], [random_node(dice) for _ in range(nodes)]
    began_s = process_time()
    index = SpecIndex(jobs)
    made_s = process_time()
    fitting = sum(int(index.fits(node).sum()) for node in asking)
    new_s = process_time()
    for node in asking:
        index.fits(node)
    return {
        "groups": groups,
        "index_s": made_s - began_s,
        "new_node_ms": 1000 * (new_s - made_s) / nodes,
        "seen_node_ms": 1000 * (process_time() - new_s) / nodes,
        "fitting_groups": fitting / nodes,
    }


if __name__ == "__main__":
    main()
