"""What runs and waits on a synthetic grid, and what is known of users and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grids import work

if TYPE_CHECKING:
    from grids.generator import Grid

STATUSES = ("defined", "assigned", "activated", "starting", "running", "transferring", "holding")
DEFINED = ("defined", "assigned")
USERS = ("alice", "bob", "carol", "dave")


def build_load(grid: Grid) -> None:
    """Jobs of both kinds at the queues, and the measured classes of sites, tasks and shares."""
    number = 6_000_000_000
    for queue in grid.queues:
        for analysis in (False, True):
            for status in STATUSES:
                if not grid.chance(0.45):
                    continue
                for _ in range(grid.pick(1, 2, 5, 20) if status == "running" else grid.pick(1, 1, 3, 8)):
                    number += 1
                    _job(grid, number, str(queue["nickname"]), status, analysis)
    for queue in grid.queues:
        if grid.chance(0.8):
            row = {"metric": "analy_site_eval", "computingsite": queue["nickname"], "gshare": "NULL"}
            grid.add("metrics", **row, value_json={"class": grid.pick(-1, 0, 1)}, timestamp=grid.ago(minutes=30))
    for share in (*work.ANALYSIS_SHARES, *(f"L1 {name}" for name in work.ANALYSIS_SHARES)):
        usage = {"usage_perc": grid.pick(0.4, 0.7, 0.95, 1.3), "eqiv_usage_perc": grid.pick(0.4, 0.9, 1.2)}
        row = {"metric": "gshare_preference", "gshare": share, "computingsite": "NULL"}
        grid.add("metrics", **row, value_json=usage, timestamp=grid.ago(minutes=6))
    for user in USERS:
        row = {"account": user, "rse_expression": "type=SCRATCHDISK", "bytes_limit": 100 * 10**12}
        grid.add("rucio_account_usage", **row, bytes=grid.pick(*[10] * 20, 95, 101) * 10**12)


def _job(grid: Grid, number: int, queue: str, status: str, analysis: bool) -> None:
    cores = grid.pick(1, 8)
    share = grid.dice.choice(work.ANALYSIS_SHARES if analysis else work.PRODUCTION_SHARES)
    at = grid.ago(minutes=grid.dice.randint(1, 900))
    grid.add(
        "jobsdefined4" if status in DEFINED else "jobsactive4", pandaid=number, jeditaskid=30_000_000 + number % 50,
        vo="atlas", computingsite=queue, jobstatus=status, prodsourcelabel="user" if analysis else "managed",
        processingtype="panda-client" if analysis else "simul", gshare=share, workqueue_id=1,
        resource_type="SCORE" if cores == 1 else "MCORE", nucleus=None if analysis else grid.dice.choice(grid.nuclei),
        currentpriority=grid.pick(300, 900), corecount=cores, actualcorecount=cores, diskio=grid.pick(8, 400, 4000),
        minramcount=2000 * cores, produsername=grid.dice.choice(USERS) if analysis else "prod", creationtime=at,
        modificationtime=at, statechangetime=at, starttime=at if status == "running" else None, endtime=None,
        relocationflag=0, lockedby="jedi",
    )  # fmt: skip
