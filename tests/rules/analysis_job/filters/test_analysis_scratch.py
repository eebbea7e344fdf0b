"""A job's whole MB on the scratch disk must be strictly less than its part of the disk."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.analysis_scratch import AnalysisScratch
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

#: A job has 1 GiB = 1,024 MB of input; its master files count as 1,000 MB.
DIRECT = {"maxinputsize_mb": -1.0}
CASES = [
    kept(maxwdir_mb=1025.0),
    rejected(maxwdir_mb=1024.0),
    kept(maxwdir_mb=0.0),
    kept(maxwdir_mb=None),
    # work space plus a margin of 300 MB; no margin without work space
    kept(workdiskcount=100.0, maxwdir_mb=1425.0),
    rejected(workdiskcount=100.0, maxwdir_mb=1424.0),
    kept(workdiskcount=0.0, maxwdir_mb=1325.0),
    rejected(workdiskcount=0.0, maxwdir_mb=1324.0),
    kept(workdiskcount=1.0, workdiskunit="GB", maxwdir_mb=2349.0),
    rejected(workdiskcount=1.0, workdiskunit="GB", maxwdir_mb=2348.0),
    # output per MB of input: 200 kB x 1,000 = 195.3 MB; the sum is truncated to 1,219 MB
    kept(outdiskcount=200.0, maxwdir_mb=1219.5),
    rejected(outdiskcount=200.0, maxwdir_mb=1219.0),
    kept(outdiskcount=1.0, outdiskunit="MB", maxwdir_mb=2025.0),
    rejected(outdiskcount=1.0, outdiskunit="MB", maxwdir_mb=2024.0),
    rejected(outdiskcount=2.0**20, outdiskunit=None, maxwdir_mb=2024.0),
    kept(outdiskcount=-5.0, outdiskunit="GB", maxwdir_mb=1025.0),
    # directly read input takes no space
    kept(**DIRECT, workdiskcount=0.0, maxwdir_mb=301.0),
    rejected(**DIRECT, workdiskcount=0.0, maxwdir_mb=300.0),
    kept(allow_input_lan=1, direct_access_lan=True, maxwdir_mb=1.0),
    rejected(allow_input_lan=1, direct_access_lan=True, use_local_io=True, maxwdir_mb=1024.0),
    rejected(allow_input_lan=0, direct_access_lan=True, maxwdir_mb=1024.0),
    rejected(allow_input_lan=1, direct_access_lan=False, maxwdir_mb=1024.0),
    # the size of the input is unknown
    kept(atom_bytes=None, maxwdir_mb=1.0),
    rejected(atom_bytes=0.0, maxwdir_mb=0.5, workdiskcount=0.0),
    # the job's part of the slot: one core of 8, or all of them
    kept(maxwdir_mb=8200.0, unified_cores=8.0, corecount=1.0),
    rejected(maxwdir_mb=8192.0, unified_cores=8.0, corecount=1.0),
    rejected(maxwdir_mb=8192.0, unified_cores=8.0, corecount=0.0),
    rejected(maxwdir_mb=8192.0, unified_cores=8.0, corecount=None),
    kept(maxwdir_mb=1025.0, unified_cores=8.0, corecount=8.0),
    kept(maxwdir_mb=1025.0, unified_cores=None, corecount=1.0),
    # merging takes twice the input, which is always copied
    kept(merging=True, maxwdir_mb=2049.0, workdiskcount=900.0),
    rejected(merging=True, maxwdir_mb=2048.0),
    rejected(merging=True, **DIRECT, maxwdir_mb=2048.0),
    # 2 GB per job: 2,048 MB of copied input; with direct input its output, unless local IO is requested
    kept(gb_per_job=2.0, maxwdir_mb=2049.0),
    rejected(gb_per_job=2.0, maxwdir_mb=2048.0),
    kept(gb_per_job=2.0, outdiskcount=512.0, **DIRECT, maxwdir_mb=1025.0),
    rejected(gb_per_job=2.0, outdiskcount=512.0, **DIRECT, maxwdir_mb=1024.0),
    kept(gb_per_job=2.0, outdiskcount=512.0, **DIRECT, use_local_io=True, maxwdir_mb=501.0),
    rejected(gb_per_job=2.0, outdiskcount=512.0, **DIRECT, use_local_io=True, maxwdir_mb=500.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_analysis_scratch(case: Case) -> None:
    check(AnalysisScratch(), case)
