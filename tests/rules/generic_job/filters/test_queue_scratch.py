"""Output, work space and input of a job against the scratch disk, in whole MB."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.filters.queue_scratch import QueueScratch
from tests.rules.builders import MB, Case, check, kept, rejected

NOTHING = {"atom_bytes": 0.0}
CASES = [
    # 0 and NULL are no limit
    kept(atom_bytes=1e15, maxwdir_mb=0.0),
    kept(atom_bytes=1e15, maxwdir_mb=None),
    # the output as given, whatever the input; only the beginning of a unit counts
    kept(**NOTHING, outdiskcount=10, outdiskunit="MBPerEvent", maxwdir_mb=10),
    rejected(**NOTHING, outdiskcount=11, outdiskunit="MBPerEvent", maxwdir_mb=10),
    kept(**NOTHING, outdiskcount=-5, outdiskunit="GB", maxwdir_mb=1),
    kept(**NOTHING, outdiskcount=2047, outdiskunit="kB", maxwdir_mb=1),
    rejected(**NOTHING, outdiskcount=2048, outdiskunit="kB", maxwdir_mb=1),
    # 300 MB more than the work space, if the task needs any
    kept(**NOTHING, workdiskcount=0, maxwdir_mb=300),
    rejected(**NOTHING, workdiskcount=1, maxwdir_mb=300),
    kept(**NOTHING, workdiskcount=None, maxwdir_mb=1),
    # the input counts unless it is read directly
    kept(atom_bytes=50 * MB, maxwdir_mb=50),
    rejected(atom_bytes=51 * MB, maxwdir_mb=50),
    kept(atom_bytes=None, maxwdir_mb=50),
    kept(atom_bytes=51 * MB, maxwdir_mb=50, allow_input_lan=1, direct_access_lan=True),
    kept(atom_bytes=51 * MB, maxwdir_mb=50, maxinputsize_mb=-1),
    rejected(atom_bytes=51 * MB, maxwdir_mb=50, maxinputsize_mb=-1, use_local_io=True),
    rejected(atom_bytes=51 * MB, maxwdir_mb=50, maxinputsize_mb=-1, merging=True),
    rejected(atom_bytes=51 * MB, maxwdir_mb=50, direct_access_lan=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_queue_scratch(case: Case) -> None:
    check(QueueScratch(), case)
