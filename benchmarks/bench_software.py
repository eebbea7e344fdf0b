"""How long it takes to match 200 distinct requirements with 500 queues that publish 2,000 software tags each.

Besides the seconds of matching, the report shows those of reading the published tags, those of a second cycle on the
same tags published again, and the peak memory of the process.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TypeVar

import numpy as np

from benchmarks.measuring import asked_folder, report
from broker.domain.queues import GpuSummary, QueueOffer
from broker.matching.match_queue import SoftwareMatcherCache
from broker.matching.need import Need, production_need
from broker.matching.outcomes import Outcome
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.software import build_software

QUEUES, TAGS, REQUIREMENTS, SEED = 500, 2000, 200, 1
PLATFORMS = [
    f"{arch}-{system}-gcc{gcc}-opt"
    for arch in ("x86_64", "aarch64")
    for system in ("slc6", "centos7", "el9")
    for gcc in (8, 11, 13)
]
PROJECTS = ["Athena", "AthSimulation", "AthGeneration", "AthDerivation", "AthAnalysis", "AnalysisBase", "AtlasOffline"]
GPUS = [
    ("NVIDIA", "NVIDIA A100-SXM4-80GB", "81920", "Ampere"),
    ("NVIDIA", "Tesla T4", "15360", "Turing"),
    ("NVIDIA", "NVIDIA H100 80GB HBM3", "81559", "Hopper"),
    ("AMD", "AMD Instinct MI250X", "65536", "CDNA2"),
]
SEEN_GPUS = [
    GpuSummary(vendor, model, vram, generation, "12.4", "550.54.15") for vendor, model, vram, generation in GPUS
]
T = TypeVar("T")


def releases(count: int) -> list[tuple[str, str, str]]:
    """Return platform, project and release of the tags from which queues choose theirs."""
    return [
        (
            PLATFORMS[number % len(PLATFORMS)],
            PROJECTS[number % len(PROJECTS)],
            f"{20 + number % 6}.{number % 13}.{number}",
        )
        for number in range(count)
    ]


def published_document(pool: list[tuple[str, str, str]], tags: int, rng: np.random.Generator) -> str:
    """Return what one queue publishes; every queue leaves out different tags."""
    chosen = [pool[index] for index in np.sort(rng.choice(len(pool), tags, replace=False))]
    gpus = [{"type": "gpu", "vendor": ["nvidia"]}] if rng.random() < 0.15 else []
    vendors = [["intel"], ["amd"], ["intel", "amd"], ["intel", "excl"]][int(rng.integers(4))]
    body = {
        "cmtconfigs": sorted({platform for platform, _, _ in chosen}),
        "containers": [["any"], ["/cvmfs"], ["docker://"], []][int(rng.integers(4))],
        "cvmfs": [["atlas", "nightlies"], ["atlas"], []][int(rng.integers(3))],
        "architectures": [{"type": "cpu", "arch": ["x86_64"], "vendor": vendors, "instr": ["avx2"]}, *gpus],
        "tags": [
            {
                "cmtconfig": platform,
                "project": project,
                "release": release,
                "container_name": "" if index % 10 else f"atlas/{project.lower()}:{release}",
                "sources": [] if index % 10 else [f"docker://atlas/{project.lower()}:{release}"],
                "tag": f"VO-atlas-{project}-{release}-{platform}",
            }
            for index, (platform, project, release) in enumerate(chosen)
        ],
    }
    return json.dumps(body)


def rows(queues: int, tags: int, seed: int) -> RawSource:
    """Return the source as it is read from the database."""
    rng, pool = np.random.default_rng(seed), releases(tags + tags // 20)
    values = tuple((f"QUEUE_{index}", published_document(pool, tags, rng)) for index in range(queues))
    return RawSource("software", {"sw_tags": Rows(("panda_queue", "data"), values)})


def requirements(count: int, tags: int) -> list[Need]:
    """Make distinct needs of every kind: releases, patterns, containers, CPUs and GPUs."""
    pool = releases(tags)

    def need_of_number(number: int) -> Need:
        platform, project, release = pool[number * 7 % len(pool)]
        kinds = (
            platform,
            f"{platform}@centos7",
            platform.replace("gcc8", "gcc.*").replace("el9", "(el9|centos7)"),
            f"{platform}#x86_64-intel-avx2|aarch64",
            f"{platform}#x86_64&nvidia:model=.*A100.*:vram>=40960:cuda>=12.{number}",
            json.dumps({"sw_platform": platform, "gpu_spec": {"vendor": "(nvidia|amd)", "version": f"<{number}.1"}}),
        )
        image = f"docker://atlas/{project.lower()}:{release}" if number % 9 == 0 else None
        return production_need(kinds[number % len(kinds)], f"{project}-{release}", image, number % 18 == 0)

    return [need_of_number(number) for number in range(count)]


def offers(source: RawSource, seed: int) -> list[QueueOffer]:
    """Return what the queues offer, as a snapshot holds it."""
    names = {row["panda_queue"]: index for index, row in enumerate(source.rows("sw_tags").records())}
    tags, _ = build_software(source, names, [])
    rng = np.random.default_rng(seed)
    gpus_by_queue = [
        tuple(SEEN_GPUS[index] for index in rng.integers(0, len(SEEN_GPUS), int(rng.integers(4)))) for _ in names
    ]
    return [
        QueueOffer(name, ("AUTO",), software, gpus)
        for name, software, gpus in zip(names, tags, gpus_by_queue, strict=True)
    ]


def time_work(work: Callable[[], T]) -> tuple[float, T]:
    """Run a piece of work; return its seconds and its result."""
    start_s = perf_counter()
    result = work()
    return perf_counter() - start_s, result


def peak_mb() -> float:
    """Return the peak memory of the process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def measure(queues: int, tags: int, count: int, seed: int) -> dict[str, float]:
    """Measure all figures of one run."""
    source, needs, memory = rows(queues, tags, seed), requirements(count, tags), SoftwareMatcherCache()
    stats: dict[str, float] = {"queues": queues, "tags": tags, "requirements": len(set(needs))}

    def cycle(grid: list[QueueOffer]) -> Iterator[int]:
        match_queue = memory.matcher_of(grid, sources)
        return (int((match_queue.outcomes(need) == Outcome.FITS).sum()) for need in needs)

    _, sources = build_software(RawSource("software", {}), {}, [])
    stats["read_s"], grid = time_work(lambda: offers(source, seed))
    stats["match_s"], accepted = time_work(lambda: sum(cycle(grid)))
    stats["read_again_s"], same = time_work(lambda: offers(source, seed))
    stats["match_again_s"], _ = time_work(lambda: sum(cycle(same)))
    stats["accepted_share"] = accepted / (queues * count)
    stats["peak_mb"] = peak_mb()
    return stats


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    report(
        folder,
        "software",
        [measure(QUEUES, TAGS, REQUIREMENTS, SEED)],
        target="match_s < 1, match_again_s ~ 0, peak_mb < 500",
    )


if __name__ == "__main__":
    main()
