"""Busy disks reject tasks with much disk IO, in kB/s per core, which is not truncated."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.task_disk_io import TaskDiskIo
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

BUSY = {"average_diskio_kbps": 501.0, "maxdiskio_kbps": 500.0}
CASES = [
    rejected(**BUSY, diskio=501.0),
    kept(**BUSY, diskio=500.0),
    kept(**BUSY, diskio=0.0),
    kept(**BUSY, diskio=None),
    kept(average_diskio_kbps=500.0, maxdiskio_kbps=500.0, diskio=501.0),
    kept(average_diskio_kbps=None, maxdiskio_kbps=500.0, diskio=501.0),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=None, diskio=501.0, MAX_DISKIO_DEFAULT=500),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=0.0, diskio=501.0, MAX_DISKIO_DEFAULT=500),
    kept(average_diskio_kbps=9e9, maxdiskio_kbps=None, diskio=9e9),
    # 4001 / 8 = 500.125: production would truncate that to 500
    rejected(**BUSY, diskio=4001.0, corecount=8.0, unified_cores=8.0),
    kept(**BUSY, diskio=4000.0, corecount=8.0, unified_cores=8.0),
    rejected(**BUSY, diskio=501.0, corecount=1.0, unified_cores=8.0),
    rejected(**BUSY, diskio=501.0, corecount=0.0, unified_cores=8.0),
    rejected(**BUSY, diskio=501.0, corecount=None, unified_cores=8.0),
    rejected(**BUSY, diskio=501.0, corecount=8.0, unified_cores=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_task_disk_io(case: Case) -> None:
    check(TaskDiskIo(), case)
