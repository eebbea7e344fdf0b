"""The platform of jobs, and the shared need of equal chunks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.domain.queues import QueueOffer, QueueSoftware
from broker.gdpconfig.tuning import Tuning
from broker.matching.need import production_need
from broker.rules.contract import JobPairs
from broker.rules.shared.software_need import PRODUCTION_NEED, Dialect, chunk_needs, platform_of_jobs
from tests.rules.builders import Case, make_tasks

OFFER = QueueOffer("QUEUE", ("AUTO",), QueueSoftware("", cmtconfigs=("x86_64-slc6-gcc8-opt",)))


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        (None, ""),
        ("x86_64-el9-gcc13-opt", "x86_64-el9-gcc13-opt"),
        ("x86_64-el9-gcc13-opt#x86_64&nvidia", "x86_64-el9-gcc13-opt"),
        ("x86_64-el9-gcc13-opt@el9", "x86_64-el9-gcc13-opt@el9"),
        ("x86_64-slc.-gcc8-opt", "x86_64-slc6-gcc8-opt"),
        ("x86_64-slc.-gcc8-opt@centos7+docker://img", "x86_64-slc6-gcc8-opt@centos7+docker://img"),
        ("x86_64-el.-gcc8-opt@el9", "x86_64-el.-gcc8-opt@el9"),
        ('{"sw_platform": "x86_64-slc.-gcc8-opt", "base_platform": "el9"}', "x86_64-slc6-gcc8-opt@el9"),
        ('{"gpu_spec": {}}', ""),
    ],
)
def test_platform_of_jobs(architecture: str | None, expected: str) -> None:
    need = production_need(architecture, "Athena-24.0.41", None, False)
    assert platform_of_jobs(need, OFFER) == expected


def test_equal_chunks_have_equal_needs() -> None:
    architectures = [
        "#x86_64&nvidia",
        '{"cpu_specs": [{"arch": "x86_64"}], "gpu_spec": {"vendor": "nvidia"}}',
        "#x86_64",
    ]
    text_need, json_need, different = chunk_needs(make_tasks(3, architecture=architectures, transhome=["A-1"] * 3))
    assert text_need == json_need != different


@pytest.mark.parametrize("dialect", ["specification", "panda"])
def test_without_chunks_the_outcomes_have_no_rows(dialect: Dialect) -> None:
    _, queues, facts, _ = Case(True, {}).tables()
    tasks = make_tasks(1)
    tasks = dataclasses.replace(
        tasks, **{field.name: getattr(tasks, field.name)[:0] for field in dataclasses.fields(tasks)}
    )
    pairs = JobPairs(tasks, queues, facts, Tuning.defaults().only(()))
    assert PRODUCTION_NEED.in_dialect(dialect).outcomes(pairs).shape == (0, queues.name.shape[1])
    assert PRODUCTION_NEED.in_dialect(dialect).outcomes(pairs).dtype == np.int64
