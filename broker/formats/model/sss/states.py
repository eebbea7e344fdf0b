"""Maps states of jobs and tasks: PanDA's many to the few of the SSS Job Object, and back.

Source: Scalable Systems Software Job Object Specification 3.0.3, JobState and JobGroupState; PanDA data model, status.
"""

from __future__ import annotations

JOB_STATE_OF: dict[str, str] = {
    **dict.fromkeys(
        ("pending", "defined", "waiting", "assigned", "throttled", "activated", "sent", "starting"), "Idle"
    ),
    **dict.fromkeys(("running", "holding", "merging", "transferring"), "Running"),
    **dict.fromkeys(("finished", "failed", "closed", "cancelled"), "Completed"),
}
GROUP_STATE_OF: dict[str, str] = {
    **dict.fromkeys(("registered", "defined", "assigning", "topreprocess", "preprocessing"), "NotQueued"),
    **dict.fromkeys(("ready", "pending"), "Unstarted"),
    **dict.fromkeys(
        (
            "scouting", "scouted", "running", "throttled", "paused", "prepared", "finishing", "toretry", "toincexec",
            "rerefine", "aborting", "tobroken", "exhausted",
        ),
        "Active",
    ),
    **dict.fromkeys(("done", "finished", "failed", "aborted", "broken", "passed"), "Completed"),
}  # fmt: skip


def job_status_of(state: str | None, exit_code: int | None, *, held: bool) -> str:
    """PanDA's status of a job in one of the five states; a job without a state counts as waiting."""
    if state == "Completed":
        return "failed" if exit_code else "finished"
    if state in ("Running", "Suspended"):
        return "running"
    return "pending" if held or state == "Hold" else "activated"


def task_status_of(state: str | None, job_statuses: list[str]) -> str:
    """PanDA's status of a task in one of the four states, from the statuses of its jobs if the state is not enough."""
    if state == "Completed":
        finished = sum(status == "finished" for status in job_statuses)
        return "done" if finished == len(job_statuses) else "finished" if finished else "failed"
    return {"NotQueued": "registered", "Unstarted": "ready", "Active": "running"}.get(state or "", "registered")


def job_state_of(status: str | None) -> str:
    """The state of a job in one of PanDA's statuses; an unknown status counts as waiting."""
    return JOB_STATE_OF.get(status or "", "Idle")


def group_state_of(status: str | None) -> str:
    """The state of a task in one of PanDA's statuses."""
    return GROUP_STATE_OF.get(status or "", "NotQueued")
