"""Scratch disk in MB: at least 1500 for output, at least 300 for work space, and the input if it is copied."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.scratch_disk import ScratchDisk
from tests.rules.builders import MB, Case, check, kept, make_tasks, rejected

CASES = [
    rejected(atom_bytes=1000 * MB, maxwdir_mb=2800.0),
    kept(atom_bytes=1000 * MB, maxwdir_mb=2801.0),
    kept(atom_bytes=1000 * MB, maxwdir_mb=0.0),
    kept(atom_bytes=1000 * MB, maxwdir_mb=None),
    # whole MB: an incomplete MB does not count
    rejected(atom_bytes=1001 * MB, maxwdir_mb=2801.0),
    kept(atom_bytes=1001 * MB - 1, maxwdir_mb=2801.0),
    rejected(atom_bytes=None, maxwdir_mb=1800.0),
    kept(atom_bytes=None, maxwdir_mb=1801.0),
    # directly read input takes no space
    kept(atom_bytes=1000 * MB, maxwdir_mb=1801.0, maxinputsize_mb=-1.0),
    rejected(atom_bytes=1000 * MB, maxwdir_mb=1800.0, maxinputsize_mb=-1.0),
    kept(atom_bytes=1000 * MB, maxwdir_mb=1801.0, allow_input_lan=1, direct_access_lan=True),
    rejected(atom_bytes=1000 * MB, maxwdir_mb=1801.0, allow_input_lan=1),
    rejected(atom_bytes=1000 * MB, maxwdir_mb=1801.0, direct_access_lan=True),
    rejected(atom_bytes=1000 * MB, maxwdir_mb=1801.0, allow_input_lan=1, direct_access_lan=True, use_local_io=True),
    kept(atom_bytes=1000 * MB, maxwdir_mb=1801.0, maxinputsize_mb=-1.0, use_local_io=True),
    rejected(atom_bytes=1000 * MB, maxwdir_mb=1801.0, maxinputsize_mb=-1.0, merging=True),
    # output per event: 2 MB x 1000; per MB of input: 2048 kB x 1000 MB; in bytes
    rejected(outdiskcount=2.0, outdiskunit="MBPerEvent", atom_events=1000.0, atom_bytes=0.0, maxwdir_mb=2300.0),
    kept(outdiskcount=2.0, outdiskunit="MBPerEvent", atom_events=1000.0, atom_bytes=0.0, maxwdir_mb=2301.0),
    rejected(outdiskcount=2048.0, outdiskunit="kB", atom_mb=1000.0, atom_bytes=0.0, maxwdir_mb=2300.0),
    kept(outdiskcount=2048.0, outdiskunit="kB", atom_mb=1000.0, atom_bytes=0.0, maxwdir_mb=2301.0),
    rejected(outdiskcount=1.0, outdiskunit="GBPerEvents", atom_events=2.0, atom_bytes=0.0, maxwdir_mb=2348.0),
    kept(outdiskcount=1.0, outdiskunit="GBPerEvents", atom_events=2.0, atom_bytes=0.0, maxwdir_mb=2349.0),
    kept(outdiskcount=9e5, outdiskunit=None, atom_mb=1000.0, atom_bytes=0.0, maxwdir_mb=1801.0),
    kept(outdiskcount=-5.0, outdiskunit="GB", atom_bytes=0.0, maxwdir_mb=1801.0),
    # work space, but at least 300 MB
    rejected(workdiskcount=301.0, atom_bytes=0.0, maxwdir_mb=1801.0),
    kept(workdiskcount=301.0, atom_bytes=0.0, maxwdir_mb=1802.0),
    kept(workdiskcount=299.0, atom_bytes=0.0, maxwdir_mb=1801.0),
    kept(workdiskcount=1.0, workdiskunit="GB", atom_bytes=0.0, maxwdir_mb=2525.0),
    rejected(workdiskcount=1.0, workdiskunit="GB", atom_bytes=0.0, maxwdir_mb=2524.0),
    # a single-core job gets the part of one core, also of a flexible task; event service and multi-core jobs get all
    rejected(atom_bytes=1000 * MB, corecount=1.0, unified_cores=8.0, maxwdir_mb=22_400.0),
    kept(atom_bytes=1000 * MB, corecount=1.0, unified_cores=8.0, maxwdir_mb=22_408.0),
    rejected(atom_bytes=1000 * MB, corecount=0.0, unified_cores=8.0, maxwdir_mb=22_400.0),
    rejected(atom_bytes=1000 * MB, corecount=None, unified_cores=8.0, maxwdir_mb=22_400.0),
    kept(atom_bytes=1000 * MB, corecount=8.0, unified_cores=8.0, maxwdir_mb=2801.0),
    kept(atom_bytes=1000 * MB, corecount=1.0, unified_cores=8.0, maxwdir_mb=2801.0, eventservice=1.0),
    kept(atom_bytes=1000 * MB, corecount=1.0, unified_cores=0.0, maxwdir_mb=2801.0),
    kept(atom_bytes=1000 * MB, corecount=1.0, unified_cores=None, maxwdir_mb=2801.0),
]


@pytest.mark.parametrize(("requested_mb", "work_mb"), [(None, 0.0), (0.0, 300.0), (50.0, 350.0)])
def test_work_space_may_be_300_mb_more_than_requested(requested_mb: float | None, work_mb: float) -> None:
    rule = ScratchDisk().configured({"work": "300_mb_more"})
    assert rule.work_bytes(make_tasks(workdiskcount=requested_mb)).item() == work_mb * MB


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_scratch_disk(case: Case) -> None:
    check(ScratchDisk(), case)
