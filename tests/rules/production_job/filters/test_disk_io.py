"""A queue with busy disks rejects tasks with much disk IO, in kB/s per core."""

from __future__ import annotations

import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.disk_io import DiskIo
from tests.rules.builders import Case, check, kept, make_facts, make_queues, make_tasks, rejected, tuning_for

CASES = [
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=501.0),
    kept(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=500.0),
    kept(average_diskio_kbps=500.0, maxdiskio_kbps=500.0, diskio=900.0),
    kept(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=None),
    kept(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=0.0),
    kept(average_diskio_kbps=9e9, maxdiskio_kbps=None, diskio=9e9),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=None, diskio=501.0, MAX_DISKIO_DEFAULT=500),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=0.0, diskio=501.0, MAX_DISKIO_DEFAULT=500),
    kept(average_diskio_kbps=501.0, maxdiskio_kbps=None, diskio=501.0, MAX_DISKIO_DEFAULT=0),
    kept(average_diskio_kbps=400.0, maxdiskio_kbps=0.0, diskio=400.0, MAX_DISKIO_DEFAULT=500),
    kept(average_diskio_kbps=None, maxdiskio_kbps=500.0, diskio=900.0),
    # 4015 // 8 is 501 and 4007 // 8 is 500 in whole kB/s per core
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=4015.0, corecount=8.0, unified_cores=8.0),
    kept(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=4007.0, corecount=8.0, unified_cores=8.0),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=4007.0, corecount=1.0, unified_cores=8.0),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=4007.0, corecount=0.0, unified_cores=8.0),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=4007.0, corecount=None, unified_cores=8.0),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=501.0, corecount=8.0, unified_cores=0.0),
    rejected(average_diskio_kbps=501.0, maxdiskio_kbps=500.0, diskio=501.0, corecount=8.0, unified_cores=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_disk_io(case: Case) -> None:
    check(DiskIo(), case)


@pytest.mark.parametrize(
    ("maxdiskio_kbps", "key"), [(500.0, "queue.maxdiskio"), (0.0, "MAX_DISKIO_DEFAULT"), (None, "MAX_DISKIO_DEFAULT")]
)
def test_the_observation_names_the_source_of_the_limit(maxdiskio_kbps: float | None, key: str) -> None:
    rule = DiskIo()
    queue = make_queues(maxdiskio_kbps=maxdiskio_kbps)
    assert rule.observe(JobPairs(make_tasks(diskio=1.0), queue, make_facts(), tuning_for(rule))).key == key
