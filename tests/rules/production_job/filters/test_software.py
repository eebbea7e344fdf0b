"""The rules on software and hardware: codes, observations and skipped checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from broker.domain.facts import JobFacts
from broker.domain.queues import GpuSummary, QueueOffer, QueueSoftware, SoftwareOffers
from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.regexpcmtconfig import Regexpcmtconfig
from broker.rules.production_job.filters.software import Software
from tests.rules.builders import (
    OFFERS,
    Case,
    check,
    kept,
    make_facts,
    make_queues,
    make_tasks,
    passes,
    rejected,
    tuning_for,
)

ALL, ANY, NONE, GPU, OLD = range(5)
RELEASE = "Athena-24.0.41"
FIXED, PATTERN = "x86_64-slc6-gcc8-opt", "x86_64-(slc6|el9)-gcc8-opt"


@pytest.mark.parametrize(
    "case",
    [
        kept(unified=ALL, transhome=RELEASE),
        kept(unified=ANY, transhome=RELEASE, architecture=FIXED),
        rejected(unified=ANY, transhome=RELEASE, architecture="#x86_64"),
        rejected(unified=NONE, transhome=RELEASE),
        kept(unified=NONE, transhome=None),
        kept(unified=NONE, transhome=None, architecture=FIXED),
        rejected(unified=NONE, transhome=None, architecture="#x86_64"),
        rejected(unified=GPU, transhome=None, architecture="#&nvidia:vram>=15361"),
        kept(unified=GPU, transhome=None, architecture="#&nvidia:vram>=15360"),
        kept(unified=OLD, transhome=RELEASE, architecture=FIXED),
        rejected(unified=OLD, transhome=RELEASE, architecture="x86_64-el9-gcc13-opt"),
        kept(unified=OLD, transhome=RELEASE, architecture=PATTERN),
        rejected(unified=OLD, transhome=RELEASE, architecture="x86_64-el9.*"),
        rejected(unified=OLD, transhome=RELEASE, container_name="img"),
        rejected(unified=ALL, transhome=RELEASE, container_name="img", only_tags_for_fc=True),
        kept(unified=ALL, transhome=RELEASE, container_name="img"),
        rejected(unified=ALL, transhome=RELEASE, architecture="{"),
        # an old string whose platform is not checked at a queue that takes anything
        kept(unified=ANY, transhome=RELEASE, architecture="'{}'"),
        rejected(unified=ALL, transhome=RELEASE, architecture="'{}'"),
        rejected(unified=ANY, transhome=RELEASE, architecture="'#x86_64'"),
        # left to the next rule
        kept(unified=GPU, transhome=RELEASE, architecture="x86_64-el9.*"),
    ],
    ids=str,
)
def test_software(case: Case) -> None:
    check(Software(), case)


@pytest.mark.parametrize(
    "case",
    [
        rejected(unified=GPU, transhome=RELEASE, architecture="x86_64-el9.*"),
        kept(unified=GPU, transhome=RELEASE, architecture=FIXED),
        kept(unified=ANY, transhome=RELEASE, architecture="x86_64-el9.*"),
        kept(unified=GPU, transhome=None, architecture="x86_64-el9.*"),
        # another requirement is unmet and reported first
        kept(unified=OLD, transhome=RELEASE, architecture="x86_64-el9.*"),
        kept(unified=OLD, transhome=RELEASE, architecture=PATTERN),
    ],
    ids=str,
)
def test_regexpcmtconfig(case: Case) -> None:
    check(Regexpcmtconfig(), case)


def observation_of(architecture: str, unified: int = GPU, software: SoftwareOffers = OFFERS) -> dict[str, Any]:
    tasks, queues = make_tasks(architecture=architecture, transhome=RELEASE), make_queues(unified=unified)
    observation = Software().observe(JobPairs(tasks, queues, make_facts(software=software), tuning_for(Software())))
    return {
        "value": observation.value,
        "operator": observation.operator,
        "limit": observation.limit,
        "unit": observation.unit,
        **observation.inputs,
    }


@pytest.mark.parametrize(
    ("architecture", "shown"),
    [
        ("#&nvidia:vram>=40960", {"part": "gpu_vram", "value": "15360", "limit": "40960", "best_available": "15360"}),
        ("#&nvidia:cuda>=12.9", {"part": "gpu_cuda", "value": "12.4", "operator": ">=", "limit": "12.9"}),
        ("#&nvidia:driver==1", {"part": "gpu_driver", "value": "550.54", "operator": "==", "limit": "1"}),
        ("#&amd", {"part": "gpu_vendor", "value": "NVIDIA", "limit": "amd"}),
        ("#&*-.*A100", {"part": "gpu_model", "value": "Tesla T4", "limit": ".*A100"}),
        ("#&*:model!=.*T4", {"part": "gpu_model_excluded", "best_available": "Tesla T4", "asked": ".*T4"}),
        ("#&*:uarch=Ampere", {"part": "gpu_microarchitecture", "value": "Turing", "limit": "Ampere"}),
        ("#aarch64", {"part": "cpu", "arch": "x86_64", "limit": "aarch64-*-*", "implied": False}),
        ("aarch64-el9-gcc13-opt", {"part": "cpu", "implied": True}),
        ("#&*:model=(?=x)", {"part": "pattern_unsupported", "value": "(?=x)"}),
        ('{"gpu_spec": 1}', {"part": "architecture_invalid"}),
    ],
)
def test_the_observation_shows_the_requirement_and_the_offer(architecture: str, shown: dict[str, Any]) -> None:
    observation = observation_of(architecture)
    assert {key: observation[key] for key in shown} == shown


def test_the_observation_shows_missing_gpu_monitoring() -> None:
    silent = replace(OFFERS, queues=(*OFFERS.queues[:GPU], replace(OFFERS.queues[GPU], gpus=())))
    assert observation_of("#&nvidia", software=silent)["part"] == "gpu_no_monitoring"
    assert observation_of("#&*", software=silent)["part"] == "fits"


def masks(facts: JobFacts, architecture: str) -> tuple[bool, bool]:
    tasks, queues = make_tasks(architecture=architecture, transhome=RELEASE), make_queues(unified=GPU)
    unknown = Software().unknown(JobPairs(tasks, queues, facts, tuning_for(Software())))
    keep = Software().keep(JobPairs(tasks, queues, facts, tuning_for(Software())))
    return bool(keep.item()), unknown is not None and bool(unknown.item())


@pytest.mark.parametrize(
    ("architecture", "known", "unusable"),
    [
        ("#&nvidia", (True, False), (False, True)),
        ("#&amd", (False, False), (False, True)),
        ("#&*", (True, False), (True, False)),
        ("#x86_64", (True, False), (True, False)),
        ("#aarch64&nvidia", (False, False), (False, False)),
    ],
)
def test_without_the_gpu_summary_only_chunks_that_need_it_are_unknown(
    architecture: str, known: tuple[bool, bool], unusable: tuple[bool, bool]
) -> None:
    assert masks(make_facts(), architecture) == known
    assert masks(make_facts(software=replace(OFFERS, gpus_known=False)), architecture) == unusable


def test_many_chunks_and_candidates_at_once() -> None:
    architectures = [None, "#&nvidia", "#x86_64", "#&nvidia", "#aarch64"]
    positions = [GPU, ALL, ANY, GPU]
    tasks = make_tasks(len(architectures), architecture=architectures, transhome=[RELEASE] * len(architectures))
    queues = make_queues(len(positions), unified=positions)
    facts = make_facts(len(architectures), len(positions))
    mask = passes(Software(), tasks, queues, facts, tuning_for(Software()))
    gpu, all_of, any_of = [1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0]
    assert mask.tolist() == np.array([gpu, all_of, any_of, gpu], dtype=bool).T.tolist()


def test_no_chunks_give_an_empty_mask() -> None:
    facts = make_facts(0, 3)
    assert Software().keep(JobPairs(make_tasks(0), make_queues(3), facts, tuning_for(Software()))).shape == (0, 3)


def test_cached_outcomes_of_other_queues_are_not_used() -> None:
    tasks, queues = make_tasks(transhome=RELEASE), make_queues(unified=0)
    without_software = SoftwareOffers((QueueOffer("ALL", ("AUTO",), None),))
    open_to_all = QueueSoftware("0", containers=("any",), cvmfs=frozenset({"any"}))
    for offers, keep in ((OFFERS, True), (without_software, False), (OFFERS, True)):
        mask = Software().keep(JobPairs(tasks, queues, make_facts(software=offers), tuning_for(Software())))
        assert bool(mask.item()) is keep
    changed = SoftwareOffers((QueueOffer("ALL", ("AUTO",), replace(open_to_all, digest="9", cvmfs=frozenset())),))
    assert not Software().keep(JobPairs(tasks, queues, make_facts(software=changed), tuning_for(Software()))).item()


def test_gpus_of_unknown_memory_are_shown_as_such() -> None:
    blank = replace(OFFERS.queues[GPU], gpus=(GpuSummary("NVIDIA"),))
    observation = observation_of("#&nvidia:vram!=1", software=replace(OFFERS, queues=(*OFFERS.queues[:GPU], blank)))
    assert (observation["part"], observation["value"], observation["best_available"]) == ("gpu_vram", "unknown", None)
