"""Parse one CRIC queue row into a checked record: defaults for missing fields, a reason for unusable ones.

Source: PanDA data model, schedconfig; production brokerage, queues and pseudo-queues.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from broker.domain.queues import BARE_ALLOW, BARE_NONE, BARE_ONLY
from broker.snapshot.raw import BadValueError, json_object, lenient_number, name, number, text
from broker.snapshot.sources.pins import NO_PINS, Pinned


class Catchall:
    """The free-form settings of one queue."""

    def __init__(self, catchall: str | None, params: dict[str, Any]) -> None:
        self._params = params
        self._items = [item.strip() for item in (catchall or "").split(",") if item.strip()]

    def flag(self, key: str) -> bool:
        """Whether the key is present: in ``params`` with any value, or as the beginning of an item."""
        return key in self._params or any(item.startswith(key) for item in self._items)

    def value(self, key: str) -> Any:
        """The value of the key; None without one."""
        if key in self._params:
            return self._params[key]
        prefix = f"{key}="
        return next((item[len(prefix) :] for item in self._items if item.startswith(prefix)), None)


#: MB, used if neither maxwdir nor maxinputsize can be read.
DEFAULT_MAXWDIR_MB = 16336.0
#: Limits without a default: a queue with an unreadable limit cannot be judged.
_LIMITS = {"maxrss_mb": "maxrss", "minrss_mb": "minrss", "maxtime_s": "maxtime"}


@dataclass(frozen=True)
class QueueRecord:
    """A queue as CRIC describes it. NaN and None are NULL."""

    name: str
    status: str | None
    type: str
    cloud: str
    capability: str | None
    workflow: str | None
    cores: float
    corepower: float
    maxrss_mb: float
    minrss_mb: float
    maxtime_s: float
    mintime_s: float
    maxwdir_mb: float
    maxinputsize_mb: float
    pledgedcpu: float
    transferringlimit: float
    maxdiskio_kbps: float
    fairsharepolicy: str | None
    connectivity: str | None
    ip_stack: str | None
    direct_access_lan: bool
    direct_access_wan: bool
    is_cvmfs: bool
    jobseed: str | None
    releases: tuple[str, ...]
    grandly_unified: bool
    bare_nucleus: int
    secondary_nucleus: str | None
    use_jumbo: bool
    min_events_for_jumbo: float
    use_only_local_data: bool
    max_io_intensity: float
    job_chunk_size: float
    space_gb: float
    allow_no_pilot: bool
    allowed_processing: str | None
    excluded_processing: str | None
    faults: tuple[str, ...] = field(default=())

    @property
    def runs_production(self) -> bool:
        """Whether production jobs may run here."""
        return self.type in ("production", "unified") or self.grandly_unified

    @property
    def runs_analysis(self) -> bool:
        """Whether analysis jobs may run here."""
        return self.type in ("analysis", "unified") or self.grandly_unified

    @property
    def is_unified(self) -> bool:
        """Whether the queue is represented by pseudo-queues."""
        return self.capability == "ucore"


def _connectivity(value: str | None) -> tuple[str | None, str | None]:
    if not value:
        return None, None
    parts = value.split("#")
    stack = parts[1] if len(parts) == 2 and parts[1] else None
    return parts[0] or None, stack


def _maxwdir_mb(data: dict[str, Any], faults: list[str]) -> float:
    try:
        return number(data.get("maxwdir"), "maxwdir", 0.0)
    except BadValueError as bad:
        faults.append(str(bad))
    try:
        maxinputsize = number(data.get("maxinputsize"), "maxinputsize", 0.0)
    except BadValueError:
        return DEFAULT_MAXWDIR_MB
    return maxinputsize + 2000.0 if maxinputsize else 0.0


def _releases(value: Any, faults: list[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    items = value.split("|") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        faults.append("releases: wrong_type")
        return ()
    return tuple(item for item in items if item)


def _free_form(data: dict[str, Any], faults: list[str]) -> tuple[Catchall, dict[str, Any]]:
    params = data.get("params")
    if params is not None and not isinstance(params, dict):
        faults.append("params: wrong_type")
        params = None
    return Catchall(text(data.get("catchall"), "catchall"), params or {}), params or {}


def read_queue(panda_queue: Any, document: Any, pinned: Pinned = NO_PINS) -> QueueRecord:
    """Read one ``schedconfig_json`` row; the key is its nickname, or else the row's own name.

    Fields that are ``pinned`` under that name take the value of the pin.

    Raises:
        BadValueError: the row is unusable (not a JSON object, no name, or an unreadable limit without a default).
    """
    data = json_object(document, "data")
    key = name(panda_queue if data.get("nickname") in (None, "") else data["nickname"], "nickname")
    data = {**data, **pinned.get(key, {})}
    faults: list[str] = []
    free, params = _free_form(data, faults)
    connectivity, stack = _connectivity(text(data.get("wnconnectivity"), "wnconnectivity"))
    record = QueueRecord(
        name=key,
        status=text(data.get("status"), "status"),
        type=text(data.get("type"), "type") or "production",
        cloud=(text(data.get("cloud"), "cloud") or "").split(",")[0].strip(),
        capability=text(data.get("capability"), "capability"),
        workflow=text(data.get("workflow"), "workflow"),
        **_stats(data, params, free, faults),
        fairsharepolicy=text(data.get("fairsharepolicy"), "fairsharepolicy"),
        connectivity=connectivity,
        ip_stack=stack,
        direct_access_lan=data.get("direct_access_lan") is True,
        direct_access_wan=data.get("direct_access_wan") is True,
        is_cvmfs=data.get("is_cvmfs") is True,
        jobseed=text(data.get("jobseed"), "jobseed"),
        releases=_releases(data.get("releases"), faults),
        grandly_unified=free.flag("grandly_unified"),
        bare_nucleus={"only": BARE_ONLY, "allow": BARE_ALLOW}.get(str(free.value("bareNucleus")), BARE_NONE),
        secondary_nucleus=_text_or_none(free.value("secondaryNucleus")),
        use_jumbo=free.flag("useJumboJobs"),
        use_only_local_data=free.flag("use_only_local_data"),
        allow_no_pilot=free.flag("allow_no_pilot"),
        allowed_processing=_text_or_none(free.value("allowed_processing")),
        excluded_processing=_text_or_none(free.value("excluded_processing")),
        faults=tuple(faults),
    )
    # params are read after this adjustment, so only the catchall string can request it
    return _per_core(record) if Catchall(text(data.get("catchall"), "catchall"), {}).flag("per_core_attr") else record


def _stats(data: dict[str, Any], params: dict[str, Any], free: Catchall, faults: list[str]) -> dict[str, float]:
    """The figures of a queue: those without a default must be readable; others fall back and add a fault."""
    defaulted = {
        "cores": "corecount",
        "corepower": "corepower",
        "mintime_s": "mintime",
        "pledgedcpu": "pledgedcpu",
        "transferringlimit": "transferringlimit",
    }
    stats = {name: lenient_number(data.get(key), key, 0.0, faults) for name, key in defaulted.items()}
    stats |= {name: number(data.get(key), key) for name, key in _LIMITS.items()}
    optional = {
        "maxinputsize_mb": ("maxinputsize", data.get("maxinputsize")),
        "maxdiskio_kbps": ("maxdiskio", data.get("maxdiskio")),
        "min_events_for_jumbo": ("minEventsForJumbo", free.value("minEventsForJumbo")),
        "max_io_intensity": ("max_io_intensity", params.get("max_io_intensity")),
        "job_chunk_size": ("jobChunkSize", free.value("jobChunkSize")),
        "space_gb": ("space", data.get("space")),
    }
    stats |= {name: lenient_number(value, key, math.nan, faults) for name, (key, value) in optional.items()}
    return stats | {"maxwdir_mb": _maxwdir_mb(data, faults)}


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _per_core(record: QueueRecord) -> QueueRecord:
    if record.cores <= 0:
        return record
    return replace(
        record,
        maxrss_mb=record.maxrss_mb * record.cores,
        minrss_mb=record.minrss_mb * record.cores,
        maxwdir_mb=record.maxwdir_mb * record.cores,
    )
