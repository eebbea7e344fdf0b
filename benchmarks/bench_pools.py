"""How long it takes to find which of 5,000 queues are eligible for each of 1,000 pools: a refresh without the database.

Besides the evaluation, the report shows the seconds for reading the resources from JSON and YAML, and for reading the
pools from their canonical texts.
"""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.measuring import asked_folder, best_of, report
from broker.pools.model.description import NumberLiteral, RawValue
from broker.pools.model.eligibility import match_pools
from broker.pools.model.job_text import resolve_requirements
from broker.pools.model.requirement import SubmitPool, parse_canonical
from broker.pools.model.resource_text import read_resources

POOLS, QUEUES, SEED = 1000, 5000, 1
TAGS, MODELS, VOS = 400, 20, ("atlas", "lhcb", "cms", "belle")
CES, QUEUES_AT_CE = 5, 10


def sites(queues: int, seed: int) -> dict[str, Any]:
    """Make sites with five CEs of ten queues each; every level has parameters, and some are for one VO only."""
    rng = np.random.default_rng(seed)

    def number(low: int, high: int) -> str:
        return str(rng.integers(low, high))

    def queue() -> dict[str, Any]:
        parameters = {"Disk": number(10, 1000), f"Special{rng.integers(50)}": "yes"}
        return {"params": parameters, "VO": [str(rng.choice(VOS))] if rng.random() < 0.2 else []}

    def ce() -> dict[str, Any]:
        parameters = {
            "CPUModel": f"M{rng.integers(MODELS)}",
            "Memory": number(1000, 64000) + ("GB" if rng.random() < 0.01 else ""),
        }
        return {"params": parameters, "queues": {f"q{index}": queue() for index in range(QUEUES_AT_CE)}}

    def site() -> dict[str, Any]:
        tags = sorted({f"V{index}" for index in rng.integers(0, TAGS, 40)})
        common = {"SoftwareTag": tags, "OS": "el9", "Memory": "2000"}
        return {
            "params": common,
            "vo_params": {str(rng.choice(VOS)): {"SoftwareTag": tags[:20]}},
            "ces": {f"ce{index}": ce() for index in range(CES)},
        }

    return {f"LCG.Site{index}.org": site() for index in range(-(-queues // (CES * QUEUES_AT_CE)))}


def pools(count: int, seed: int) -> list[SubmitPool]:
    """Make distinct pools of one to four requirements, of four VOs."""
    rng = np.random.default_rng(seed)
    pools_by_id: dict[str, SubmitPool] = {}
    while len(pools_by_id) < count:
        requirements: dict[str, RawValue] = {"Memory": NumberLiteral(str(rng.integers(1000, 32000)))}
        if rng.random() < 0.7:
            requirements["SoftwareTag"] = [f"V{index}" for index in rng.integers(0, TAGS, 3)]
        if rng.random() < 0.4:
            requirements["CPUModel"] = f"M{rng.integers(MODELS)}"
        if rng.random() < 0.3:
            requirements["Disk"] = NumberLiteral(str(rng.integers(10, 500)))
        pool = resolve_requirements(requirements, VOS[len(pools_by_id) % len(VOS)])
        if pool is not None:
            pools_by_id[pool.pool_id] = pool
    return list(pools_by_id.values())


def measure(pool_count: int, queue_count: int, seed: int) -> dict[str, float]:
    """Measure all figures of one run."""
    text = json.dumps(sites(queue_count, seed))
    canonical = [pool.canonical for pool in pools(pool_count, seed)]
    stats: dict[str, float] = {"pools": pool_count, "queues": queue_count}
    stats["read_json_s"], reading = best_of(1, lambda: read_resources(text, ".json"))
    start_s = perf_counter()
    read_resources(text, ".yaml")
    stats["read_yaml_s"] = perf_counter() - start_s
    stats["read_pools_s"], parsed_pools = best_of(1, lambda: [parse_canonical(line) for line in canonical])
    stats["evaluate_s"], answer = best_of(3, lambda: match_pools(parsed_pools, reading.resources))
    stats["reasons_of_one_s"], _ = best_of(3, lambda: answer.reasons(0))
    stats["eligible_share"] = float(answer.eligible.mean())
    return stats


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    report(folder, "pools", [measure(POOLS, QUEUES, SEED)], target="read_pools_s + evaluate_s < 5")


if __name__ == "__main__":
    main()
