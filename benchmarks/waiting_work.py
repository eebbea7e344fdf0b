"""Waiting work modelled on LHCb's, and nodes that request it.

LHCb's data are in ``lhcb_marginals.json``: groups of owners with their classes of CPU time and the jobs of a task
queue, types, sites by rank and platforms. Only marginals are known, so these are drawn independently of each other. The
number of jobs of a task queue is drawn between one and twice the mean of its group and class. A task queue that may run
at all sites of the source has no list of sites here. Invented are: the 1.5 % of the jobs with numeric requirements on
nodes and the 0.5 % with tags, twenty jobs per task; sites, nodes, tags, priorities and user names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from broker.matching.specs.node import Node
from broker.matching.specs.spec import Bounds, JobSpecs, Memory, Spec
from broker.matching.specs.tags import parse_tags
from broker.pilots.model.matcher import Pilot

VO, CE, QUEUE = "lhcb", "ce", "q"
BY_NUMBERS, BY_TAGS, JOBS_OF_OWN = 0.015, 0.005, 20
TAGS = tuple(f"sw:release-{number}" for number in range(300))
_MARGINALS = Path(__file__).with_name("lhcb_marginals.json")
_ARM = "armv8"


@dataclass(frozen=True)
class Task:
    """Similar jobs: their requirements and their owner."""

    jobs: int
    owner: str
    owner_group: str | None
    job_type: str
    priority: int
    cputime_s: int
    sites: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    specs: str | None = None


@dataclass
class Work:
    """Draws tasks with a number of jobs at a number of sites.

    Args:
        jobs: the total number of jobs, at least.
        sites: the number of sites of the grid.
        seed: the seed of the draw.
    """

    jobs: int
    sites: int
    seed: int = 1
    tasks: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._figures: dict[str, Any] = json.loads(_MARGINALS.read_text(encoding="utf-8"))
        self._generator = np.random.default_rng(self.seed)
        tail_jobs = round(self.jobs * (BY_NUMBERS + BY_TAGS))
        remaining = self.jobs - tail_jobs
        while remaining > 0:
            task = self._of_lhcb()
            self.tasks.append(task)
            remaining -= task.jobs
        self.tasks += [self._by_numbers() for _ in range(round(self.jobs * BY_NUMBERS / JOBS_OF_OWN))]
        self.tasks += [self._by_tags() for _ in range(round(self.jobs * BY_TAGS / JOBS_OF_OWN))]
        order = self._generator.permutation(len(self.tasks))
        self.tasks = [self.tasks[index] for index in order.tolist()]

    def _row(self, name: str) -> list[Any]:
        """Draw a row of a table, in proportion to its task queues."""
        table = self._figures[name]
        column = table["columns"].index("task queues")
        weights = np.array([row[column] for row in table["rows"]], dtype=np.float64)
        rows: list[list[Any]] = table["rows"]
        return rows[int(self._generator.choice(len(rows), p=weights / weights.sum()))]

    def _of_lhcb(self) -> Task:
        draw = self._generator
        group, class_s, queues, jobs = self._row("groups")
        number = int(draw.integers(1, max(2, 2 * round(jobs / queues))))
        kind = "User" if group == "users" else self._row("types")[0]
        platforms = self._row("platforms")[0]
        # the second group has most of the work for ARM
        while (group == "group 2") != platforms.startswith(_ARM):
            platforms = self._row("platforms")[0]
        owner = f"user{draw.integers(24)}" if group == "users" else f"{group} {draw.integers(3)}"
        least_s = 1 + class_s // 2
        return Task(
            number, owner, None if group == "users" else group, kind, int(draw.integers(0, 10)),
            int(draw.integers(least_s, class_s, endpoint=True)), self._sites_of(), tuple(platforms.split()),
        )  # fmt: skip

    def _sites_of(self) -> tuple[str, ...]:
        """Draw the sites that a task queue names; an empty list means all."""
        figures, draw = self._figures["sites"], self._generator
        limited_queues = self._figures["task_queues"] - figures["everywhere"]
        if draw.random() >= limited_queues / self._figures["task_queues"]:
            return ()
        probabilities = np.maximum(np.array(figures["ranks"]) - figures["everywhere"], 0) / limited_queues
        ranks = set(np.flatnonzero(draw.random(len(probabilities)) < probabilities).tolist()) or {0}
        return tuple(site_name(site) for site in range(self.sites) if site * figures["of"] // self.sites in ranks)

    def _own(self, spec: Spec) -> Task:
        draw = self._generator
        owner = f"tail{draw.integers(50)}"
        specs = JobSpecs((spec,), VO).canonical
        return Task(JOBS_OF_OWN, owner, "tail", "User", int(draw.integers(0, 10)), 0, specs=specs)

    def _by_numbers(self) -> Task:
        draw = self._generator
        cores = int(draw.choice([1, 1, 1, 8]))
        return self._own(
            Spec(
                wall_time_s=int(draw.integers(3600, 200_000)),
                cores=Bounds(cores, None),
                ram_request=Memory(int(draw.integers(0, 3000)), int(draw.integers(500, 2500))),
                architecture="x86_64",
                level_least=int(draw.choice([2, 2, 3, 4])),
                scratch_mb=int(draw.integers(1000, 40_000)),
            )
        )

    def _by_tags(self) -> Task:
        first, second, third = self._generator.choice(TAGS, 3).tolist()
        return self._own(Spec(tags=parse_tags(f"{first} | {second} & ~{third}")))


def site_name(number: int) -> str:
    """Return the name of a site."""
    return f"SITE_{number}"


def pilots_of(nodes: int, sites: int, seed: int = 2) -> list[tuple[Pilot, dict[str, Any]]]:
    """Make pilots on ``nodes`` nodes, each with the body of its request.

    A tenth of the nodes are ARM, sites have many different sizes, and each has nodes with three sets of tags.
    """
    draw = np.random.default_rng(seed)
    sizes = 1 / np.sqrt(1 + np.arange(sites))
    site_of_node = draw.choice(sites, nodes, p=sizes / sizes.sum()).tolist()
    tags = [[frozenset(draw.choice(TAGS, 8).tolist()) for _ in range(3)] for _ in range(sites)]
    return [_pilot(draw, site, tags[site][int(draw.integers(3))]) for site in site_of_node]


def _pilot(draw: np.random.Generator, site: int, tags: frozenset[str]) -> tuple[Pilot, dict[str, Any]]:
    is_arm = draw.random() < 0.1
    level = int(draw.choice([2, 3, 3, 4]))
    cores = int(draw.choice([1, 1, 8, 8, 64]))
    ram_mb, scratch_mb = cores * int(draw.integers(1900, 4100)), int(draw.integers(10_000, 80_000))
    wall_s, cputime_s = int(draw.integers(20_000, 260_000)), int(draw.choice([100_000, 600_000, 1_500_000, 1_500_000]))
    architecture = "aarch64" if is_arm else "x86_64"
    platforms = ("armv8.2_a-any", "armv8.2_a-el9") if is_arm else (f"x86_64_v{level}-any", f"x86_64_v{level}-centos7")
    node = Node(
        site_name(site), "Linux", "2.34", True, wall_s, None, 20.0, cores, ram_mb, architecture,
        None if is_arm else level, gpus=0, scratch_mb=scratch_mb, tags=tags,
    )  # fmt: skip
    architecture_fields = {"name": architecture} | ({} if is_arm else {"level": f"x86-64-v{level}"})
    cpu = {"num-cores": cores, "ram-mb": ram_mb, "architecture": architecture_fields}
    document = {
        "system": {"name": "Linux", "glibc": "2.34", "user-namespaces": True}, "wall-time": wall_s, "cpu": cpu,
        "cpu_power_db12": 20.0, "gpu": {"count": 0}, "io": {"scratch-mb": scratch_mb}, "tags": sorted(tags),
    }  # fmt: skip
    body = {
        "site": site_name(site), "ce": CE, "queue": QUEUE, "vo": VO, "platforms": platforms, "cpu_time_s": cputime_s,
        "node": document,
    }  # fmt: skip
    return Pilot(site_name(site), CE, QUEUE, VO, platforms, cputime_s, node=node), body
