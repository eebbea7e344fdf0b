"""The platform of jobs, and one need for equal chunks."""

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
    ("architecture", "written"),
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
def test_platform_of_jobs(architecture: str | None, written: str) -> None:
    need = production_need(architecture, "Athena-24.0.41", None, False)
    assert platform_of_jobs(need, OFFER) == written


def test_equal_chunks_have_equal_needs() -> None:
    written = ["#x86_64&nvidia", '{"cpu_specs": [{"arch": "x86_64"}], "gpu_spec": {"vendor": "nvidia"}}', "#x86_64"]
    old, new, other = chunk_needs(make_tasks(3, architecture=written, transhome=["A-1"] * 3))
    assert old == new != other


@pytest.mark.parametrize("dialect", ["specification", "panda"])
def test_no_chunks_have_outcomes_at_all_candidates(dialect: Dialect) -> None:
    _, queues, facts, _ = Case(True, {}).tables()
    none = make_tasks(1)
    none = dataclasses.replace(none, **{one.name: getattr(none, one.name)[:0] for one in dataclasses.fields(none)})
    pairs = JobPairs(none, queues, facts, Tuning.defaults().only(()))
    assert PRODUCTION_NEED.in_dialect(dialect).outcomes(pairs).shape == (0, queues.name.shape[1])
    assert PRODUCTION_NEED.in_dialect(dialect).outcomes(pairs).dtype == np.int64
