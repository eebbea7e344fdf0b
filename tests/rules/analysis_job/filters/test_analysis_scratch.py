"""Whole MB on the scratch disk, strictly less than the part of it that the job gets."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.analysis_scratch import AnalysisScratch
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

#: A job has 1 GiB = 1,024 MB of input; its master files count 1,000 MB.
DIRECT = {"maxinputsize_mb": -1.0}
CASES = [
    kept(maxwdir_mb=1025.0),
    rejected(maxwdir_mb=1024.0),
    kept(maxwdir_mb=0.0),
    kept(maxwdir_mb=None),
    # work space and 300 MB; without work space no margin
    kept(workdiskcount=100.0, maxwdir_mb=1425.0),
    rejected(workdiskcount=100.0, maxwdir_mb=1424.0),
    kept(workdiskcount=0.0, maxwdir_mb=1325.0),
    rejected(workdiskcount=0.0, maxwdir_mb=1324.0),
    kept(workdiskcount=1.0, workdiskunit="GB", maxwdir_mb=2349.0),
    rejected(workdiskcount=1.0, workdiskunit="GB", maxwdir_mb=2348.0),
    # output for each MB of input: 200 kB x 1,000 = 195.3 MB; the sum is cut to 1,219 MB
    kept(outdiskcount=200.0, maxwdir_mb=1219.5),
    rejected(outdiskcount=200.0, maxwdir_mb=1219.0),
    kept(outdiskcount=1.0, outdiskunit="MB", maxwdir_mb=2025.0),
    rejected(outdiskcount=1.0, outdiskunit="MB", maxwdir_mb=2024.0),
    rejected(outdiskcount=2.0**20, outdiskunit=None, maxwdir_mb=2024.0),
    kept(outdiskcount=-5.0, outdiskunit="GB", maxwdir_mb=1025.0),
    # input that is read directly takes no space
    kept(**DIRECT, workdiskcount=0.0, maxwdir_mb=301.0),
    rejected(**DIRECT, workdiskcount=0.0, maxwdir_mb=300.0),
    kept(allow_input_lan=1, direct_access_lan=True, maxwdir_mb=1.0),
    rejected(allow_input_lan=1, direct_access_lan=True, use_local_io=True, maxwdir_mb=1024.0),
    rejected(allow_input_lan=0, direct_access_lan=True, maxwdir_mb=1024.0),
    rejected(allow_input_lan=1, direct_access_lan=False, maxwdir_mb=1024.0),
    # nothing of the input is known to have a size
    kept(atom_bytes=None, maxwdir_mb=1.0),
    rejected(atom_bytes=0.0, maxwdir_mb=0.5, workdiskcount=0.0),
    # the part of the slot: one core of 8, or all of them
    kept(maxwdir_mb=8200.0, unified_cores=8.0, corecount=1.0),
    rejected(maxwdir_mb=8192.0, unified_cores=8.0, corecount=1.0),
    rejected(maxwdir_mb=8192.0, unified_cores=8.0, corecount=0.0),
    rejected(maxwdir_mb=8192.0, unified_cores=8.0, corecount=None),
    kept(maxwdir_mb=1025.0, unified_cores=8.0, corecount=8.0),
    kept(maxwdir_mb=1025.0, unified_cores=None, corecount=1.0),
    # merging: twice the input, always copied
    kept(merging=True, maxwdir_mb=2049.0, workdiskcount=900.0),
    rejected(merging=True, maxwdir_mb=2048.0),
    rejected(merging=True, **DIRECT, maxwdir_mb=2048.0),
    # 2 GB for a job: as input 2,048 MB; read directly its output, unless local IO was asked for
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
