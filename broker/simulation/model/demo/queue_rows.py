"""Queues of the demonstration grid: configuration, software tags and GPUs."""

from __future__ import annotations

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.facts import DemoFacts, QueueFacts

CAPABILITY = {"unified": "ucore", "multi": "mcore", "single": "score"}
MB_PER_GB = 1024


def panda_site_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``panda_site``: the site of every queue."""
    return [{"panda_site_name": name, "site_name": queue.site} for name, queue in facts.queues.items()]


def schedconfig_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``schedconfig_json``: the CRIC description of every queue."""
    return [
        {"panda_queue": name, "data": _description(facts, name, queue), "last_update": clock.ago(minutes=4)}
        for name, queue in facts.queues.items()
    ]


def _description(facts: DemoFacts, name: str, queue: QueueFacts) -> Row:
    site = facts.sites[queue.site]
    return {
        "nickname": name,
        "panda_resource": name,
        "atlas_site": queue.site,
        "cloud": queue.cloud or site.cloud,
        "tier": f"T{site.tier}",
        **({} if site.place is None else dict(zip(("latitude", "longitude"), site.place, strict=True))),
        "type": "unified",
        "status": queue.status,
        "capability": CAPABILITY[queue.kind],
        "workflow": queue.workflow,
        "corecount": queue.cores,
        "corepower": queue.corepower,
        "maxrss": queue.ram_mb,
        "minrss": queue.min_ram_mb,
        "memory": 0,
        "maxtime": queue.max_walltime_h * 3600,
        "mintime": queue.min_walltime_h * 3600,
        "maxwdir": queue.scratch_gb * MB_PER_GB,
        "maxinputsize": 250_000,
        "pledgedcpu": queue.pledged_cores,
        "releases": list(queue.releases),
        "fairsharepolicy": queue.share_policy,
        "transferringlimit": queue.transferring_limit,
        "wnconnectivity": queue.connectivity,
        "direct_access_lan": queue.direct_lan,
        "direct_access_wan": queue.direct_wan,
        "is_cvmfs": True,
        "maxdiskio": queue.max_diskio,
        "jobseed": queue.jobseed,
        "catchall": queue.catchall,
        "params": dict(queue.params),
    }


def software_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``sw_tags``: releases, containers and architectures of the queues that publish them."""
    return [
        {"panda_queue": name, "data": _software(queue), "last_update": clock.ago(minutes=4)}
        for name, queue in facts.queues.items()
        if queue.releases == ("AUTO",)
    ]


def _software(queue: QueueFacts) -> Row:
    architectures: list[Row] = [{"type": "cpu", "arch": [queue.arch], "instr": ["avx2"], "vendor": ["any"]}]
    if queue.gpus:
        vendors = sorted({gpu.vendor.lower() for gpu in queue.gpus})
        architectures.append({"type": "gpu", "vendor": vendors, "model": sorted(gpu.model for gpu in queue.gpus)})
    return {
        "cvmfs": ["atlas", "nightlies"],
        "containers": ["any", "/cvmfs"],
        "cmtconfigs": list(queue.platforms),
        "tags": [],
        "architectures": architectures,
    }


def gpu_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``mv_worker_node_gpu_summary``: one for every combination of hardware and software at a queue."""
    return [
        {
            "site": queue.site,
            "panda_queue": name,
            "vendor": gpu.vendor,
            "model": gpu.model,
            "vram": gpu.vram_mb,
            "architecture": gpu.architecture,
            "framework": "CUDA",
            "framework_version": gpu.cuda,
            "driver_version": gpu.driver,
            "gpus_per_host": gpu.per_host,
            "host_count": gpu.hosts,
        }
        for name, queue in facts.queues.items()
        for gpu in queue.gpus
    ]
