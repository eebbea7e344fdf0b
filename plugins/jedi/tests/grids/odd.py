"""What is odd on real grids, put into a synthetic one: wrong and missing values, special hardware, extra replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grids.generator import Grid

Row = dict[str, Any]
CPU = "x86_64-el9-gcc13-opt"
ARCHITECTURES = (
    CPU, CPU, f"{CPU}#x86_64-intel-avx2", f"{CPU}#x86_64&nvidia", "aarch64-el9-gcc13-opt#aarch64", f"{CPU}@el9",
    "x86_64-.*-gcc\\d+-opt", "x86_64-.*-clang\\d+-opt", f'{{"sw_platform": "{CPU}"}}',
    f'{{"sw_platform": "{CPU}", "cpu_specs": [{{"arch": "x86_64", "vendor": "amd"}}]}}',
    f'{{"sw_platform": "{CPU}", "gpu_spec": {{"vendor": "nvidia", "model": ".*A100.*"}}}}',
    f'{{"sw_platform": "{CPU}", "cpu_specs": [{{"arch": "x86_64"}}], '
    '"cpu_pref": {"preferred_architecture_level": "x86-64-v3"}}',
)  # fmt: skip
RELEASES = (
    "AtlasOffline-24.0.41", "AtlasOffline-21.0.15", "Athena-main--Athena-2026-07-30T2101", "AnalysisBase-25.2.30",
)  # fmt: skip
USER_RELEASES = (
    "AnalysisTransforms-Athena_24.0.41.1", "AnalysisTransforms-AtlasOffline_21.0.15", "AnalysisBase-25.2.30",
    "AnalysisTransforms-AnalysisBase_25.2.30.1", "AnalysisTransforms-Athena_2026-07-30T2101", None,
)  # fmt: skip
CATCHALLS = (
    "gpu", "per_core_attr", "use_only_local_data", "bareNucleus=only", "bareNucleus=allow", "bareNucleus=deny", "=,,",
    "no such words, at all=1", "allow_no_pilot",
)  # fmt: skip
FIELDS = (
    "maxrss", "minrss", "maxtime", "mintime", "maxwdir", "maxinputsize", "corepower", "corecount", "transferringlimit",
    "fairsharepolicy", "wnconnectivity", "maxdiskio", "pledgedcpu", "tier", "jobseed", "workflow", "resource_type",
)  # fmt: skip


def bend(grid: Grid) -> None:
    """Change the rows of a grid that is built."""
    for row in grid.tables["schedconfig_json"]:
        _queue(grid, row["data"])
    for row in grid.tables["sw_tags"]:
        _software(grid, row["data"])
    for row in grid.tables["ddm_endpoint"]:
        _storage(grid, row)
    # PanDA expands unified queues in the order of the table, up to the first that has no limit of memory
    grid.tables["schedconfig_json"].sort(key=lambda row: str(row["panda_queue"]))
    _gpus(grid)
    _policy(grid)
    for row in grid.tables["jedi_tasks"]:
        if row["jeditaskid"] < 40_000_100:
            _task(grid, row)
    _replicas(grid)


def _queue(grid: Grid, data: Row) -> None:
    if grid.chance(0.12):
        data["status"] = grid.pick("standby", "offline", "test", "paused", "brokeroff")
    if grid.chance(0.15):
        data["catchall"] = grid.dice.choice(CATCHALLS)
    if grid.chance(0.15):
        name = grid.dice.choice(FIELDS)
        if grid.chance(0.5):
            data[name] = None
        else:
            data.pop(name)
    if grid.chance(0.08):
        data["fairsharepolicy"] = grid.pick("priority>400:10%,type=any:90%", "group=AP_X:0%,type=any:100%", "broken")


def _software(grid: Grid, data: Row) -> None:
    if grid.chance(0.15):
        vendor = {"type": "gpu", "vendor": ["nvidia"], "model": [grid.pick("A100", "any", "V100")]}
        data["architectures"] = [*data["architectures"], vendor]
    if grid.chance(0.1):
        data["architectures"] = grid.pick([], [{"type": "cpu", "arch": ["any"], "instr": [], "vendor": ["excl"]}])
    if grid.chance(0.15):
        data["tags"] = [
            {"cmtconfig": CPU, "container_name": "atlas/analysisbase:25", "project": "AnalysisBase",
             "release": "25.2.30", "sources": []},
            {"cmtconfig": CPU, "container_name": "", "project": "AtlasOffline", "release": "24.0.41", "sources": []},
        ]  # fmt: skip
    if grid.chance(0.1):
        data["containers"] = grid.pick(["docker://"], ["any", "/cvmfs"], [])


def _storage(grid: Grid, row: Row) -> None:
    if grid.chance(0.08):
        row["space_free"] = grid.pick(0, 199, 200, 201, 100_000)
        row["space_expired"] = grid.pick(0, 1)
    if grid.chance(0.04):
        row["blacklisted_write"] = "Y"
    if grid.chance(0.05):
        row["space_free"], row["space_total"] = None, None


def _gpus(grid: Grid) -> None:
    for queue in grid.queues:
        if grid.chance(0.1):
            grid.add(
                "mv_worker_node_gpu_summary", panda_queue=queue["nickname"], vendor="NVIDIA",
                model="NVIDIA A100-SXM4-40GB", vram=40960, architecture="Ampere", framework="CUDA",
                framework_version="12.4",
                driver_version="550", gpus_per_host=4, host_count=2,
            )  # fmt: skip


def _policy(grid: Grid) -> None:
    keys = (
        ("jobbroker", "NQUEUED_NUC_CAP_FOR_JOBS", "100"), ("jobbroker", "NQUEUED_SAT_CAP", "20"),
        ("jobbroker", "NQUEUELIMITSITE_MC Derivations", "10"), ("jobbroker", "NQUEUELIMITSITE_101", "3"),
        ("anal_jobbroker", "USER_USAGE_THRESHOLD_A", "5"), ("anal_jobbroker", "BAD_PQ_USER", "2"),
        ("anal_jobbroker", "QUEUE_RATIO_BAD_PQ_USER", "1"), ("anal_jobbroker", "MAX_NUM_CORES_USER", "40"),
        ("taskbrokerage", "NQUEUED_NUC_CAP", "50"), ("taskbrokerage", "DISK_THRESHOLD", "150"),
    )  # fmt: skip
    for component, key, value in keys:
        if grid.chance(0.2):
            tables = grid.tables["config"]
            tables[:] = [row for row in tables if (row["component"], row["key"]) != (component, key)]
            grid.add("config", app="jedi", component=component, key=key, vo="atlas", value=value, type="integer")


def _task(grid: Grid, row: Row) -> None:
    analysis = grid.kind == "analysis_job"
    if grid.chance(0.4):
        row["architecture"] = grid.dice.choice(ARCHITECTURES)
    if grid.chance(0.3):
        row["transhome"] = grid.dice.choice(USER_RELEASES if analysis else RELEASES)
    if grid.chance(0.15):
        row["container_name"] = grid.pick("docker://atlas/analysisbase:25", "atlas/analysisbase:25")
    if grid.chance(0.3):
        more = ("CC=16", "IL=2", "IK=6", "OT=1", "AV=1", "NG=40", "IP=2", "IS=1", "MW=24", "TW=1")
        row["splitrule"] += "," + grid.dice.choice(more)
    if grid.chance(0.1):
        queue = grid.dice.choice(grid.queues)["nickname"]
        row["site"] = queue if grid.chance(0.8) else f"{queue}_GONE"
    if grid.chance(0.06):
        row[grid.pick("iointensity", "diskio", "outdiskcount", "workdiskcount", "cpuefficiency")] = None
    if grid.chance(0.06) and not analysis:
        row["workqueue_id"] = 101
    if grid.chance(0.06) and grid.kind == "production_job":
        row["nucleus"] = grid.dice.choice(grid.sites)
    if grid.chance(0.08):
        row["cputime"], row["cputimeunit"] = grid.pick((0, "HS06sPerEvent"), (None, None), (9000, "mHS06sPerEvent"))
    if grid.chance(0.05) and not analysis:
        row["eventservice"] = 1


def _replicas(grid: Grid) -> None:
    replicas = grid.tables["dataset_replicas"]
    for row in list(replicas):
        site = row["rse"].rsplit("_", 1)[0]
        if grid.chance(0.15) and row["rse"].endswith("DATADISK"):
            other = f"{site}_{'DATATAPE' if site in grid.nuclei and grid.chance(0.5) else 'SCRATCHDISK'}"
            if not any(one["name"] == row["name"] and one["rse"] == other for one in replicas):
                part = grid.pick(row["total_files"], row["total_files"] // 2)
                replicas.append(
                    row | {"rse": other, "is_tape": other.endswith("TAPE"), "available_files": part,
                           "available_bytes": part * 10**9}
                )  # fmt: skip
