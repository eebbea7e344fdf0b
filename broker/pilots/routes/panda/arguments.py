"""The arguments of the methods: names, types, and which are required. The check and the OpenAPI schema use them.

Source: PanDA server, API v1 of pilots and Harvester.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.pilots.model.job_report import FIELDS

TEXT, INTEGER, NUMBER, FLAG, LIST, OBJECT, ANY = "text", "integer", "number", "flag", "list", "object", "any"

_TYPES: Mapping[str, tuple[type, ...]] = {
    TEXT: (str,),
    INTEGER: (int,),
    NUMBER: (int, float),
    FLAG: (bool,),
    LIST: (list,),
    OBJECT: (dict,),
    ANY: (object,),
}
_SCHEMAS: Mapping[str, dict[str, Any]] = {
    TEXT: {"type": "string"},
    INTEGER: {"type": "integer"},
    NUMBER: {"type": "number"},
    FLAG: {"type": "boolean"},
    LIST: {"type": "array", "items": {}},
    OBJECT: {"type": "object"},
    ANY: {},
}

Arguments = Mapping[str, str]
"""Names of arguments and their types; a trailing ``!`` marks a required one."""


def _of(kind: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, kind)


_REPORT_TEXTS = {
    "node", "scheduler_id", "batch_id", "pilot_id", "cpu_consumption_unit", "cpu_architecture_level", "job_metrics",
    "job_sub_status", "pilot_timing", "pilot_error_diag", "exe_error_diag", "grid", "source_site", "destination_site",
}  # fmt: skip

ACQUIRE_JOBS: Arguments = {
    **_of(TEXT, "site_name!", "prod_source_label", "node", "computing_element", "prod_user_id", "resource_type"),
    **_of(TEXT, "harvester_id", "scheduler_id", "job_type"),
    **_of(NUMBER, "memory", "disk_space", "remaining_time"),
    **_of(INTEGER, "timeout", "task_id", "n_jobs", "worker_id"),
    **_of(FLAG, "background", "via_topic"),
    **_of(ANY, "get_proxy_key", "target_architecture"),
}
UPDATE_JOB: Arguments = {
    **_of(INTEGER, "job_id!"),
    **_of(TEXT, "job_status!"),
    **{one.argument: TEXT if one.argument in _REPORT_TEXTS else NUMBER for one in FIELDS},
    **_of(INTEGER, "attempt_nr", "n_events", "n_input_files", "trans_exit_code", "timeout"),
    **_of(INTEGER, "pilot_error_code", "exe_error_code"),
    **_of(TEXT, "site_name", "job_output_report", "pilot_log", "meta_data", "stdout", "start_time", "end_time"),
    **_of(TEXT, "corrupted_files"),
}
UPDATE_JOBS_BULK: Arguments = {**_of(LIST, "job_list!"), **_of(TEXT, "harvester_id")}
UPDATE_WORKER_STATUS: Arguments = {
    **_of(ANY, "worker_id!"),
    **_of(TEXT, "harvester_id!", "status!", "node_id"),
    **_of(INTEGER, "timeout"),
}
UPDATE_WORKER_NODE: Arguments = {
    **_of(TEXT, "site!", "host_name!", "cpu_model!", "panda_queue", "cpu_architecture", "cpu_architecture_level"),
    **_of(INTEGER, "n_logical_cpus", "n_sockets", "cores_per_socket", "threads_per_core", "total_memory"),
    **_of(INTEGER, "total_local_disk", "timeout"),
    **_of(NUMBER, "clock_speed"),
}
UPDATE_WORKER_NODE_GPU: Arguments = {
    **_of(TEXT, "site!", "host_name!", "vendor!", "model!", "architecture", "framework", "framework_version"),
    **_of(TEXT, "driver_version"),
    **_of(INTEGER, "count!", "vram", "timeout"),
}
REPORT_WORKER_STATISTICS: Arguments = {**_of(TEXT, "harvester_id!", "panda_queue!"), **_of(ANY, "statistics!")}
UPDATE_WORKERS: Arguments = {**_of(TEXT, "harvester_id!"), **_of(LIST, "workers!")}
ACQUIRE_COMMANDS: Arguments = {**_of(TEXT, "harvester_id!"), **_of(INTEGER, "n_commands!", "timeout")}
ACKNOWLEDGE_COMMANDS: Arguments = {**_of(LIST, "command_ids!"), **_of(INTEGER, "timeout")}
HEARTBEAT: Arguments = {**_of(TEXT, "harvester_id!"), **_of(OBJECT, "data")}


def fault_of(arguments: Arguments, values: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a call; empty if nothing is. null counts as no argument."""
    types = {name.rstrip("!"): kind for name, kind in arguments.items()}
    unknown = sorted(set(values) - set(types))
    if unknown:
        return f"unexpected argument {unknown[0][:80]!r}"
    for name in arguments:
        if name.endswith("!") and values.get(name.rstrip("!")) is None:
            return f"missing argument {name.rstrip('!')!r}"
    for name, value in values.items():
        kind = types[name]
        is_flag = isinstance(value, bool) and kind in (INTEGER, NUMBER)
        if value is not None and (is_flag or not isinstance(value, _TYPES[kind])):
            return f"{name!r} is to be {kind}, not {type(value).__name__}"
    return ""


def body_schema(arguments: Arguments) -> dict[str, Any]:
    """The OpenAPI schema of the body of a call."""
    return {
        "type": "object",
        "required": [name.rstrip("!") for name in arguments if name.endswith("!")],
        "properties": {name.rstrip("!"): _SCHEMAS[kind] for name, kind in arguments.items()},
        "additionalProperties": False,
    }
