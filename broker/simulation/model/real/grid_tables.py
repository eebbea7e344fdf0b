"""The simulated grid as rows of PanDA's tables, with the age of a view: what agents read in place of a snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from broker.domain.grid import COUNTED_STATUSES
from broker.domain.instants import naive
from broker.simulation.model.information import GridView
from broker.simulation.model.real.grid_rows import FIRST_WORK_QUEUE, endpoint, instant, share_values, sources_of
from broker.simulation.model.real.snapshots import RUNNING_JOB_CORES, free_gb, last_starts_s, over_nuclei
from broker.simulation.model.real.user_figures import LABEL, share_usage, user_name
from broker.simulation.model.scenario import VO, Scenario
from broker.simulation.model.users import Group

Row = dict[str, Any]
Tables = dict[str, list[Row]]

_QUEUED = frozenset({"defined", "assigned", "activated", "starting"})
_TRANSFERRING = COUNTED_STATUSES.index("transferring")
#: First number of jobs that exist only to be counted, far above the numbers of jobs that may be ended.
FIRST_COUNTED = 5_000_000_000


class GridTables:
    """Converts views of the grid to rows.

    Args:
        scenario: scenario of the simulation.
        nuclei: names of the nuclei, in the order of a snapshot.
    """

    def __init__(self, scenario: Scenario, nuclei: list[str]) -> None:
        self._scenario, self._nuclei = scenario, nuclei
        self._fixed: Tables = {
            name: [{key: _plain(value) for key, value in row.items()} for row in rows.records()]
            for source in sources_of(scenario)
            for name, rows in source.tables.items()
            if "." not in name and rows.values
        }
        self._fixed["global_shares"] = [
            {"name": name, "value": value, "vo": VO} for name, value in share_values(scenario)
        ]
        self._sites = {site.name: place for place, site in enumerate(scenario.sites)}

    def grid(self, view: GridView) -> Tables:
        """Queues, storages, links, pilots, software and the usage of shares, with the times of their readings."""
        now, names = _stored(view.now_s), [queue.name for queue in self._scenario.queues]
        started = dict(zip(names, last_starts_s(view).tolist(), strict=True))
        status = {name: "online" if on else "offline" for name, on in zip(names, view.online.tolist(), strict=True)}
        space = dict(zip((endpoint(site.name) for site in self._scenario.sites), free_gb(view).tolist(), strict=True))
        tables = dict(self._fixed)
        tables["schedconfig_json"] = [
            {**row, "data": {**json.loads(row["data"]), "status": status[row["panda_queue"]]}, "last_update": now}
            for row in self._fixed["schedconfig_json"]
        ]
        tables["sw_tags"] = [{**row, "last_update": now} for row in self._fixed["sw_tags"]]
        tables["ddm_endpoint"] = [
            {
                **row,
                "space_free": int(space[row["ddm_endpoint_name"]]),
                "space_timestamp": _stored(view.storages_read_s),
            }
            for row in self._fixed["ddm_endpoint"]
        ]
        tables["network_matrix_kv"] = list(self._links(view))
        tables["sitedata"] = [
            {**row, "laststart": _stored(started[row["site"]]), "lastmod": _stored(view.jobs_read_s)}
            for row in self._fixed["sitedata"]
        ]
        tables["metrics"] = [
            {"computingsite": "NULL", "gshare": share, "metric": "gshare_preference",
             "value_json": {"usage_perc": usage}, "timestamp": now}
            for share, usage in share_usage(self._scenario, view).items()
        ]  # fmt: skip
        return tables

    def _links(self, view: GridView) -> Iterator[Row]:
        for row in self._fixed.get("network_matrix_kv", ()):
            value = row["value"]
            if row["key"].endswith("_queued"):
                value = view.queued.get((self._sites[row["src"]], self._sites[row["dst"]]), 0)
            yield {**row, "value": value, "ts": _stored(view.links_read_s)}

    def counted_jobs(self, view: GridView) -> Tables:
        """PanDA's statistics of jobs, single jobs of users, and recent starts."""
        active, defined = self._statistics(view), self._assigned(view)
        cores = [
            {"computingsite": queue.name, "jobstatus": "running", "vo": VO, "prodsourcelabel": "managed",
             "num_of_cores": int(running * RUNNING_JOB_CORES)}
            for queue, running in zip(self._scenario.queues, view.running().tolist(), strict=True)
            if running
        ]  # fmt: skip
        starts = list(self._starts(view))
        return {
            "jobs_share_stats": list(active),
            "jobsdefined_share_stats": list(defined),
            "mv_jobsactive4_stats": cores,
            "jobsactive4": _numbered([*self._of_users(view), *(row for row, late in starts if not late)]),
            "jobsarchived4": _numbered([row for row, late in starts if late]),
        }

    def _share(self, number: int) -> Row:
        return {"gshare": self._scenario.shares[number][0], "workqueue_id": FIRST_WORK_QUEUE + number, "vo": VO}

    def _assigned(self, view: GridView) -> Iterator[Row]:
        types = _ByType(view)
        for queue, share in np.argwhere(view.assigned > 0).tolist():
            row = {**self._share(share), "computingsite": self._scenario.queues[queue].name, "jobstatus": "defined"}
            for kind, jobs in types.take(queue, share, 0, int(view.assigned[queue, share])):
                yield {**row, "resource_type": kind, "njobs": jobs, "ts": _stored(view.jobs_read_s)}

    def _statistics(self, view: GridView) -> Iterator[Row]:
        """Counts by queue, share and status; by resource type for users' jobs, by nucleus for transferring jobs."""
        types = _ByType(view, less=view.assigned)
        at = _stored(view.jobs_read_s)
        for queue, share, status in np.argwhere(view.counts > 0).tolist():
            name, jobs = COUNTED_STATUSES[status], int(view.counts[queue, share, status])
            row = {
                **self._share(share),
                "computingsite": self._scenario.queues[queue].name,
                "jobstatus": name,
                "ts": at,
            }
            if status == _TRANSFERRING and self._nuclei:
                spread = over_nuclei(view.counts[queue, share, status], len(self._nuclei)).astype(int).tolist()
                yield from (
                    {**row, "nucleus": nucleus, "njobs": part}
                    for nucleus, part in zip(self._nuclei, spread, strict=True)
                    if part
                )
            elif name == "running" or name in _QUEUED:
                for kind, part in types.take(queue, share, int(name == "running"), jobs):
                    yield {**row, "resource_type": kind, "njobs": part}
            else:
                yield {**row, "njobs": jobs}

    def _of_users(self, view: GridView) -> Iterator[Row]:
        reading = view.users
        for user, group, queue, runs in np.argwhere(reading.jobs > 0).tolist():
            share, _ = reading.groups[group]
            row = {
                **self._share(share),
                "computingsite": self._scenario.queues[queue].name,
                "produsername": user_name(user),
                "prodsourcelabel": LABEL,
                "processingtype": "simulation",
                "jobstatus": "running" if runs else "activated",
                "corecount": 1,
            }
            yield from (dict(row) for _ in range(int(reading.jobs[user, group, queue, runs])))

    def _starts(self, view: GridView) -> Iterator[tuple[Row, bool]]:
        """A job for each start of the last six hours, and whether it is a start of the last five minutes."""
        hours = 36 * 600.0 / 3600.0
        before = np.minimum(np.rint(view.users.starts_an_hour * hours), view.users.starts).astype(int).tolist()
        for queue, jobs, old in zip(self._scenario.queues, view.users.starts.astype(int).tolist(), before, strict=True):
            row = {"computingsite": queue.name, "vo": VO}
            an_hour_ago, just_now = _stored(view.now_s - 3600.0), _stored(view.now_s - 1.0)
            for number in range(jobs):
                late = number >= old
                yield (
                    {
                        **row,
                        "jobstatus": "finished" if late else "transferring",
                        "starttime": just_now if late else an_hour_ago,
                    },
                    late,
                )


class _ByType:
    """Distributes the resource types of users' jobs, so that each type gets as many jobs as the users have."""

    def __init__(self, view: GridView, less: np.ndarray | None = None) -> None:
        reading = view.users
        self._left: dict[tuple[int, int, int], dict[Group, int]] = {}
        jobs = reading.jobs.sum(axis=0)  # (G, U, 2)
        for group, queue, runs in np.argwhere(jobs > 0).tolist():
            share = reading.groups[group][0]
            self._left.setdefault((queue, share, runs), {})[reading.groups[group]] = int(jobs[group, queue, runs])
        if less is not None:
            for queue, share in np.argwhere(less > 0).tolist():
                list(self.take(queue, share, 0, int(less[queue, share])))

    def take(self, queue: int, share: int, runs: int, jobs: int) -> Iterator[tuple[str | None, int]]:
        """Yield counts of this many jobs of a share at a queue by type; None for jobs that are not users'."""
        left = self._left.get((queue, share, runs), {})
        for group, have in list(left.items()):
            taken = min(have, jobs)
            if taken:
                left[group], jobs = have - taken, jobs - taken
                yield "MCORE" if group[1] else "SCORE", taken
        if jobs:
            yield None, jobs


def _numbered(rows: list[Row]) -> list[Row]:
    return [{"pandaid": FIRST_COUNTED + number, **row} for number, row in enumerate(rows)]


def _plain(value: Any) -> Any:
    return _text(value) if isinstance(value, datetime) else value


def _stored(time_s: float) -> str:
    """A virtual time as stored in a scenario: naive UTC."""
    return _text(instant(time_s))


def _text(moment: datetime) -> str:
    return naive(moment).isoformat()


def merged(*parts: Mapping[str, list[Row]]) -> Tables:
    """The rows of all parts, table by table."""
    tables: Tables = {}
    for part in parts:
        for name, rows in part.items():
            tables.setdefault(name, []).extend(rows)
    return tables
