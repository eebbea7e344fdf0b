"""What ``config/demo`` says about the demonstration grid, checked and typed.

The files are read elsewhere; this module gets their text. Sizes and times carry their unit in the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from broker.yaml_text import read_yaml

QueueKind = Literal["unified", "multi", "single"]
InputKind = Literal["dataset", "pseudo", "unmerged"]
PilotState = Literal["active", "stalled", "none", "missing"]
Bound = tuple[int | None, int | None]
Link = tuple[str, str, int | None, int, int | None, int | None, int | None]
ConfigRow = tuple[str, str, str, str]


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SiteFacts(_Facts):
    """One site and its storage; sizes in TB, place in degrees north and east."""

    tier: int
    cloud: str
    place: tuple[float, float] | None = None
    nucleus: bool = False
    storage: bool = True
    tape: bool = False
    vp: bool = False
    endpoint: str | None = None
    disk_tb: float = 0
    free_tb: float = 0
    activity: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)


class GpuFacts(_Facts):
    """GPUs of one model in some hosts of a queue; video memory in MB."""

    vendor: str
    model: str
    vram_mb: int
    architecture: str
    cuda: str
    driver: str
    hosts: int
    per_host: int


class QueueFacts(_Facts):
    """One queue as configured and how it is doing; memory in MB and scratch in GB of a slot, walltime in hours."""

    site: str
    storage: str | None = None
    cloud: str | None = None
    kind: QueueKind
    cores: int
    slots: int
    ram_mb: int
    min_ram_mb: int
    max_walltime_h: int
    min_walltime_h: int
    scratch_gb: int
    corepower: float
    status: str
    pledged_cores: int
    connectivity: str
    direct_lan: bool
    direct_wan: bool = False
    releases: tuple[str, ...] = ("AUTO",)
    arch: str = "x86_64"
    platforms: tuple[str, ...] = ("x86_64-centos7-gcc11-opt", "x86_64-el9-gcc13-opt")
    gpus: tuple[GpuFacts, ...] = ()
    share_policy: str | None = None
    jobseed: str = "std"
    workflow: str = "pull_ups"
    catchall: str | None = None
    params: Mapping[str, object] = Field(default_factory=dict)
    max_diskio: int | None = None
    transferring_limit: int | None = None
    transferring: int | None = None
    running_diskio_kbps_per_core: int = 4
    pilots: PilotState = "active"
    harvester_slots: Mapping[str, int] = Field(default_factory=dict)
    expired_slots: int | None = None


class ShareFacts(_Facts):
    """A global share: percentage of its parent, what matches it, weight among the jobs that are there before."""

    percent: int
    parent: str | None = None
    processing: str | None = None
    label: str | None = None
    campaign: str | None = None
    working_group: str | None = None
    load: int = 0


class ResourceTypeFacts(_Facts):
    """Cores and RAM per core (MB) of a resource type, inclusive; None is open."""

    cores: Bound
    ram_mb_per_core: Bound


class WorkQueueFacts(_Facts):
    """A row of the work queue table."""

    id: int
    name: str
    function: str | None
    criteria: str | None
    variables: str | None


class SecondaryFacts(_Facts):
    """A secondary input dataset of a task; file size in MB."""

    name: str
    files: int
    file_mb: int
    attributes: str


class TaskFacts(_Facts):
    """One task with the figures of its kind filled in; memory, scratch and file sizes in MB, rates in kB/s.

    ``user`` is None for production. A user's task has no nucleus; ``nucleus`` then says where its input is by default.
    """

    name: str
    kind: str
    note: str = ""
    processing: str
    share: str
    transform: str
    nucleus: str
    jobs: int
    priority: int
    status: str = "running"
    label: str = "managed"
    working_group: str | None = "AP_PROD"
    user: str | None = None
    included: str | None = None
    excluded: str | None = None
    cores: int
    ram_mb: int
    base_ram_mb: int = 0
    hs06s_per_event: float | None
    events_per_file: int
    events_per_job: int | None = None
    files_per_job: int | None = None
    gb_per_job: int | None = None
    expected_files_per_job: int | None = None
    input: InputKind = "dataset"
    file_mb: int = 0
    replicas: tuple[str, ...] | None = None
    secondaries: tuple[SecondaryFacts, ...] = ()
    output_kb_per_event: int
    scratch_mb: int = 0
    io_kb_per_s: int | None = None
    diskio_kb_per_s: int | None = None
    rules: str = ""
    queues: str | None = None
    used: int = 0
    unused_files: int = 0
    unmerged_at: str | None = None
    frozen_h: int | None = None
    himem_files: int = 0
    himem_mb: int = 0
    event_service: int = 0
    architecture: str = "x86_64-el9-gcc13-opt"
    release: str = "Athena-24.0.62"

    @property
    def files_a_job(self) -> int:
        """Master files that one job takes."""
        return self.files_per_job or self.expected_files_per_job or 1

    @property
    def waits_for_nucleus(self) -> bool:
        """Whether the task brokerage has to find its nucleus; ``nucleus`` only says where its input is by default."""
        return self.status == "assigning"


class DemoFacts(_Facts):
    """All facts of the demonstration grid."""

    sites: Mapping[str, SiteFacts]
    queues: Mapping[str, QueueFacts]
    links: tuple[Link, ...]
    shares: Mapping[str, ShareFacts]
    resource_types: Mapping[str, ResourceTypeFacts]
    work_queues: tuple[WorkQueueFacts, ...]
    gdpconfig: tuple[ConfigRow, ...]
    users: Mapping[str, int] = Field(default_factory=dict)
    tasks: tuple[TaskFacts, ...]

    def storage_site(self, queue: str) -> str:
        """Name of the site whose storage a queue uses."""
        return self.queues[queue].storage or self.queues[queue].site

    def endpoint(self, site: str, kind: str = "DATADISK") -> str:
        """Name of the endpoint of a kind at a site."""
        return f"{self.sites[site].endpoint or site}_{kind}"


def facts_from_texts(texts: Iterable[str]) -> DemoFacts:
    """Read the facts from the text of the YAML files of ``config/demo``, in any order.

    Args:
        texts: text of every file.

    Returns:
        The facts, with queue defaults and the figures of the task kinds filled in.

    Raises:
        ValueError: a file is not a mapping, two files define one part, or a value has the wrong type
            (pydantic's error names the field).
    """
    parts: dict[str, object] = {}
    for text in texts:
        document = read_yaml(text)
        if not isinstance(document, dict):
            raise ValueError("demo facts: a file is not a mapping; write 'name: value' at its top level")
        twice = parts.keys() & document.keys()
        if twice:
            raise ValueError(f"demo facts: {sorted(twice)} defined in two files; keep one of them")
        parts.update(document)
    defaults = _mapping(parts.pop("defaults", {}))
    kinds = _mapping(parts.pop("kinds", {})) | _mapping(parts.pop("user_kinds", {}))
    queues = {name: {**defaults, **_mapping(queue)} for name, queue in _mapping(parts.get("queues")).items()}
    rows = [row for name in ("tasks", "user_tasks") for row in cast(Iterable[object], parts.pop(name, None) or ())]
    tasks = [{**_mapping(kinds.get(str(_mapping(row).get("kind")), {})), **_mapping(row)} for row in rows]
    return DemoFacts.model_validate({**parts, "queues": queues, "tasks": tasks})


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"demo facts: expected a mapping, got {type(value).__name__}; write 'name: value'")
    return {str(key): item for key, item in value.items()}
