"""Sites, storages, queues and links of a synthetic grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grids.generator import Grid

ENDPOINTS = (("DATADISK", "N"), ("SCRATCHDISK", "N"), ("DATATAPE", "Y"))


def build_sites(grid: Grid) -> None:
    """Sites with their storage endpoints."""
    for site in grid.sites:
        grid.add("site", site_name=site, role="nucleus" if site in grid.nuclei else "satellite")
        for kind, tape in ENDPOINTS:
            if kind == "DATATAPE" and site not in grid.nuclei:
                continue
            status = {}
            if grid.chance(0.12):
                status[grid.pick("read_lan", "write_lan", "read_wan", "write_wan")] = grid.pick("OFF", "TEST", "ON")
            free = grid.pick(100, 150, 3_000_000, 3_000_000, 500_000, 200_000)
            grid.add(
                "ddm_endpoint", ddm_endpoint_name=f"{site}_{kind}", site_name=site, ddm_spacetoken_name=f"ATLAS{kind}",
                type=kind, is_tape=tape, space_total=8_000_000, space_free=free, space_used=8_000_000 - free,
                space_expired=grid.pick(0, 1000), space_min_free=grid.pick(0, 500), space_unavailable=0,
                space_timestamp=grid.ago(minutes=12), blacklisted="N", blacklisted_write="N",
                blacklisted_read="Y" if grid.chance(0.03) else "N", detailed_status=status,
            )  # fmt: skip


def build_queues(grid: Grid) -> None:
    """Queues with what stands about them in CRIC, their relations to endpoints, software, pilots and workers."""
    for at in range(grid.dice.randint(16, 30)):
        site = grid.sites[at % len(grid.sites)] if at < len(grid.sites) else grid.dice.choice(grid.sites)
        name = f"{site.replace('-', '_')}_Q{at}"
        name += grid.pick("", "", "", "", "", "", "_TEST") if grid.kind == "production_job" else ""
        unified = grid.chance(0.6)
        data = _cric(grid, name, site, unified)
        grid.queues.append(data)
        grid.add("panda_site", panda_site_name=name, site_name=site)
        grid.add("schedconfig_json", panda_queue=name, data=data, last_update=grid.ago(hours=1))
        _relations(grid, name, site)
        _activity(grid, name)
        _software(grid, name)


def _cric(grid: Grid, name: str, site: str, unified: bool) -> dict[str, object]:
    cores = grid.pick(1, 8, 8, 8, 16)
    return {
        "type": grid.pick("unified", "unified", "production", "analysis"),
        "cloud": site.split("-")[0],
        "status": grid.pick(*["online"] * 20, "offline", "test", "brokeroff", "standby"),
        "memory": 0,
        "maxrss": grid.pick(64000, 64000, 64000, 128000, 128000, 16000, 2000 * cores),
        "minrss": grid.pick(0, 0, 0, 1000, 4000),
        "maxtime": grid.pick(*[345600] * 6, *[259200] * 6, 0, 43200, 86400),
        "mintime": grid.pick(0, 0, 0, 0, 3600),
        "maxinputsize": grid.pick(250000, 14336, -1),
        "maxwdir": grid.pick(*[4_000_000] * 8, 100_000, 8000, 0),
        "catchall": grid.pick(*[None] * 9, "bareNucleus=allow", "use_only_local_data", "allow_no_pilot"),
        "tier": "T2",
        "jobseed": grid.pick(*["std"] * 8, "all", "es", None),
        "capability": "ucore" if unified else grid.pick("score", "mcore"),
        "workflow": grid.pick("push", "pull_ups", None),
        "maxdiskio": grid.pick(None, None, 500, 2000),
        "fairsharepolicy": grid.pick(None, None, None, "type=production:0%", "group=phys-higgs:10%,type=any:90%"),
        "direct_access_lan": grid.chance(0.4),
        "direct_access_wan": grid.chance(0.2),
        "is_cvmfs": grid.chance(0.9),
        "corepower": grid.pick(*[10.0, 14.686, 21.5] * 4, 0),
        "wnconnectivity": grid.pick("full", "full#IPv4", "http#IPv4", "full#IPv6", None, "none"),
        "pledgedcpu": grid.pick(None, 0, 0, 0, 1000, 1000, -1, 10),
        "corecount": cores,
        "releases": grid.pick(*[["AUTO"]] * 8, ["ANY"], ["AtlasOffline-24.0.41"]),
        "transferringlimit": grid.pick(None, 0, 5, 2000),
        "atlas_site": site,
        "resource_type": grid.pick("GRID", "GRID", "hpc", "cloud"),
        "params": grid.pick(*[{}] * 9, {"max_io_intensity": 300}),
        "nickname": name,
    }


def _relations(grid: Grid, name: str, site: str) -> None:
    order = 0
    for kind, _ in ENDPOINTS:
        if kind == "DATATAPE" and (site not in grid.nuclei or grid.chance(0.4)):
            continue
        order += 1
        for scope in ("default", "analysis") if grid.chance(0.7) else ("default",):
            write = kind == ("SCRATCHDISK" if scope == "analysis" else "DATADISK")
            read = kind != "SCRATCHDISK" or scope == "analysis"
            roles = ",".join(role for role, has in (("read_lan", read), ("write_lan", write)) if has)
            if not roles:
                continue
            grid.add(
                "panda_ddm_relation", panda_site_name=name, ddm_endpoint_name=f"{site}_{kind}", is_local="Y",
                roles=roles, order_read=order, order_write=1 if write else None,
                default_read="Y" if order == 1 else "N", default_write="Y" if write else "N", scope=scope,
            )  # fmt: skip


def _activity(grid: Grid, name: str) -> None:
    for flag in ("production", "analysis"):
        if grid.chance(0.93):
            started = grid.pick(grid.ago(minutes=12), grid.ago(minutes=30), grid.ago(hours=3), None)
            grid.add(
                "sitedata", site=name, flag=flag, hours=3, getjob=grid.dice.randint(0, 3000),
                updatejob=grid.dice.randint(0, 500), lastmod=grid.ago(minutes=6), laststart=started,
                nstart=10, finished=100, failed=5,
            )  # fmt: skip
    if grid.chance(0.5):
        for status in ("running", "submitted"):
            grid.add(
                "harvester_worker_stats", harvester_id="central_1", computingsite=name, resourcetype="SCORE",
                status=status, n_workers=grid.dice.randint(0, 40), jobtype="ANY",
                lastupdate=grid.pick(grid.ago(minutes=12), grid.ago(minutes=12), grid.ago(hours=2)),
            )  # fmt: skip
    if grid.chance(0.15):
        grid.add(
            "harvester_slots", pandaqueuename=name, gshare=None, resourcetype=None,
            numslots=grid.pick(0, 40, 400), modificationtime=grid.ago(hours=1), expirationtime=None,
        )  # fmt: skip


def _software(grid: Grid, name: str) -> None:
    data = {
        "containers": grid.pick(["any"], ["any"], ["/cvmfs"], []),
        "cvmfs": grid.pick(*[["atlas", "nightlies"]] * 8, ["atlas"], []),
        "cmtconfigs": grid.pick(*[["x86_64-el9-gcc13-opt", "x86_64-centos7-gcc11-opt"]] * 4, ["x86_64-el9-gcc13-opt"]),
        "tags": [],
        "architectures": [
            {"type": "cpu", "arch": [grid.pick(*["x86_64"] * 9, "aarch64")], "instr": ["avx2"],
             "vendor": [grid.pick("intel", "amd")]}
        ],
    }  # fmt: skip
    grid.add("sw_tags", panda_queue=name, data=data, last_update=grid.ago(hours=2))
    for level, share in (("x86-64-v2", 10), ("x86-64-v3", 60), ("x86-64-v4", 30)):
        row = {"panda_queue": name, "cpu_architecture_level": level, "total_logical_cpus": 1000}
        grid.add("mv_worker_node_summary", **row, pct_within_pq=share)


def build_links(grid: Grid) -> None:
    """Links from every site to every nucleus."""
    for source in grid.sites:
        for target in grid.sites:
            if target not in grid.nuclei and grid.chance(0.7):
                continue
            values = {
                "AGIS_closeness": grid.pick(*[0, 4, 4, 7, 9] * 4, -1, 11) if source != target else 0,
                "Production Output_queued": grid.pick(0, 5, 60, 120, 150, 151, 400),
                "Express_queued": grid.pick(0, 10),
            }
            if grid.chance(0.6):
                values["dashb_mbps_1w"] = grid.dice.randint(1, 300)
                if grid.chance(0.7):
                    values["dashb_mbps_1d"] = grid.dice.randint(1, 300)
                    if grid.chance(0.7):
                        values["dashb_mbps_1h"] = grid.dice.randint(1, 300)
            for key, value in values.items():
                at = grid.ago(minutes=18) if grid.chance(0.95) else grid.ago(hours=3)
                grid.add("network_matrix_kv", src=source, dst=target, key=key, value=value, ts=at)
