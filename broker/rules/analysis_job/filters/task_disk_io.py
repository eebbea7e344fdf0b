"""Queues with busy disks get no analysis task that needs much disk IO."""

from __future__ import annotations

from broker.rules.production_job.filters.disk_io import DiskIo


class TaskDiskIo(DiskIo):
    """Rejects queues whose running jobs do more disk IO than the limit, for tasks that also need more than the limit.

    As in production, but the need of a core is not cut to whole kB/s, and the rejection is persistent. Source: ATLAS
    Analysis Job Brokerage, MAX_DISKIO_DEFAULT; PanDA analysis brokerage, disk IO.
    """

    name = "task_disk_io"
    same_in_passes = True
    kind = "persistent"
    provenance = "ATLAS Analysis Job Brokerage"
    in_whole_kbps = False
