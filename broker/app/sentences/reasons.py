"""Reason codes as what is missing: a phrase that completes "no queue ...", and a name for lists."""

from __future__ import annotations

_LACKS = {
    "lowmemory": "offers enough memory",
    "highmemory": "is for so little memory",
    "shortwalltime": "allows so long a walltime",
    "longwalltime": "is for so short a walltime",
    "scout_walltime": "allows a day of walltime for scouts",
    "min_walltime": "is for so short a walltime",
    "disk": "has enough scratch disk",
    "space": "has enough free storage",
    "cpucore": "has the cores that the task asks for",
    "max_cpucore": "has as few cores as the task allows",
    "requested_cores": "has the cores that the task accepts",
    "status": "is online",
    "zeroshare": "has a share for tasks of this kind",
    "cache": "has the software",
    "regexpcmtconfig": "has the platform",
    "nopilot": "has seen pilots lately",
    "links_full": "may be sent more files to the nucleus",
    "link_unusable": "has a usable link to the nucleus",
    "lowNetworkWeight": "has a fast enough link to the nucleus",
    "transferring": "has room for more transferring jobs",
    "cap": "has room for more waiting jobs",
    "queue_cap": "has room for more waiting jobs",
    "user_queue_length": "has room for more jobs of the user",
    "below_min_weight": "has enough weight",
    "flow_left_over": "has room left after the jobs of the cycle were placed together",
    "io": "takes so much input and output",
    "max_io_intensity": "takes so much input and output",
    "diskIO": "has enough disk bandwidth",
    "no_input_data": "has the input",
    "fileunavailable": "has all files of the input",
    "local_quota": "has quota left for the user",
    "rebrokered": "has not just lost jobs of this dataset",
    "bad_jobs": "runs jobs of this task without failures",
    "cloudmismatch": "is in the cloud that the task names",
    "notincluded": "is among those that the task names",
    "asked_site": "is among those that the task names",
    "submit_pool": "is in the SubmitPool of the task",
    "remoteio": "reads input remotely",
    "dest_blacklisted": "may send its output to the nucleus",
    "source_blacklist": "can be sent the input",
    "full_chain": "is at the nucleus, as the full chain requires",
}
#: What binds at a queue that got no job where the jobs of a cycle were placed together.
FLOW_WORDS = {
    "flow_dearer": "takes longer or moves more bytes",
    "flow_wait": "jobs would wait longer",
    "flow_queue_full": "queue full: others use its room better",
    "flow_link_full": "link full: others use the input of the site better",
    "flow_output_link_full": "link full: others use the link to the nucleus better",
    "flow_share_debt": "share debt: the share gets more of what it lacks elsewhere",
    "flow_left_over": "left over: the limits leave jobs without a place",
}
_INPUT = {
    "no_complete_replica": "The input has no complete replica that can be read.",
    "unknown_dataset": "The replica catalogue does not know the input dataset.",
    "replica_unreadable": "No replica of the input can be read.",
    "dataset_not_asked": "Rucio has not been asked for the replicas of the input yet.",
    "unknown_nucleus": "The nucleus of the task is not a site on record.",
}


def no_queue_that(code: str, kind: str) -> str:
    """``No queue offers enough memory``; for a code without a phrase, which rule rejects them."""
    phrase = _LACKS.get(code)
    return f"No {kind} {phrase}" if phrase is not None else f"No {kind} passes {code}"


def about_input(code: str) -> str:
    """What is wrong with the input, or with the work itself."""
    return _INPUT.get(code, f"The work cannot be brokered now: {code.replace('_', ' ')}.")
