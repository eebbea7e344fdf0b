"""Sites, storages and the relation of queues to storages of the demonstration grid."""

from __future__ import annotations

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.facts import DemoFacts, SiteFacts

GB_PER_TB = 1024
ACTIVITIES = ("read_lan", "write_lan", "read_wan", "write_wan", "delete")
TAPE_GB = 40_000_000


def site_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``site``: role and tier of each site."""
    return [
        {
            "site_name": name,
            "role": "nucleus" if site.nucleus else "satellite",
            "tier_level": site.tier,
        }
        for name, site in facts.sites.items()
    ]


def endpoint_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``ddm_endpoint``; space in GB."""
    return [
        _endpoint_row(facts, clock, name, kind) for name, site in facts.sites.items() for kind in endpoint_kinds(site)
    ]


def endpoint_kinds(site: SiteFacts) -> tuple[str, ...]:
    """Types of the endpoints of a site, in the order in which its queues read them."""
    if not site.storage:
        return ()
    return ("DATADISK", "SCRATCHDISK", *(("DATATAPE",) if site.tape else ()), *(("VP_DISK",) if site.vp else ()))


def _endpoint_row(facts: DemoFacts, clock: Clock, site_name: str, kind: str) -> Row:
    site = facts.sites[site_name]
    total, free = _space_gb(site, kind)
    status = dict.fromkeys(ACTIVITIES, "ON") | dict(site.activity.get(kind, {}))
    return {
        "ddm_endpoint_name": facts.endpoint(site_name, kind),
        "site_name": site_name,
        "ddm_spacetoken_name": f"ATLAS{kind}",
        "type": "DATADISK" if kind == "VP_DISK" else kind,
        "is_tape": "Y" if kind == "DATATAPE" else "N",
        "space_total": total,
        "space_free": free,
        "space_used": total - free,
        "space_expired": free // 20,
        "space_min_free": min(total // 50, free // 4),
        "space_unavailable": 0,
        "space_timestamp": clock.ago(minutes=12),
        "blacklisted": "Y" if status["write_wan"] == "OFF" else "N",
        "blacklisted_read": "Y" if status["read_wan"] == "OFF" else "N",
        "blacklisted_write": "Y" if status["write_wan"] == "OFF" else "N",
        "detailed_status": status,
    }


def _space_gb(site: SiteFacts, kind: str) -> tuple[int, int]:
    if kind == "DATATAPE":
        return TAPE_GB, TAPE_GB // 4
    total, free = int(site.disk_tb * GB_PER_TB), int(site.free_tb * GB_PER_TB)
    return (total, free) if kind == "DATADISK" else (total // 8, total // 24)


def relation_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``panda_ddm_relation``: production scope (default) and analysis scope of every queue."""
    rows: list[Row] = []
    for queue in facts.queues:
        storage = facts.storage_site(queue)
        kinds = endpoint_kinds(facts.sites[storage])
        local = "Y" if storage == facts.queues[queue].site else "N"
        production = [kind for kind in kinds if kind != "SCRATCHDISK"]
        analysis = ["SCRATCHDISK", *production]
        for scope, listed in (("default", production), ("analysis", analysis)):
            for order, kind in enumerate(listed, start=1):
                rows.append(_relation_row(queue, facts.endpoint(storage, kind), local, scope, order, kind))
    return rows


def _relation_row(queue: str, endpoint: str, local: str, scope: str, order: int, kind: str) -> Row:
    writable = kind in ("DATADISK", "DATATAPE") if scope == "default" else kind == "SCRATCHDISK"
    return {
        "panda_site_name": queue,
        "ddm_endpoint_name": endpoint,
        "is_local": local,
        "roles": "read_lan,write_lan" if writable else "read_lan",
        "order_read": order,
        "order_write": order if writable else None,
        "default_read": "Y" if order == 1 else "N",
        "default_write": "Y" if order == 1 and writable else "N",
        "scope": scope,
    }
