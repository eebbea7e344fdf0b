"""The commands of ``broker`` as methods."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, cast

from gridbroker_client.answers import (
    Alarms,
    History,
    JobAnswer,
    JobList,
    Links,
    Me,
    MessageList,
    Nuclei,
    NucleusAnswer,
    QueueAnswer,
    Queues,
    Reasons,
    ServiceAnswer,
    Shares,
    TaskDecision,
    TaskList,
    TaskSubscriptions,
    UserAnswer,
    WhyNot,
)
from gridbroker_client.answers.jobs import JobLine
from gridbroker_client.answers.tasks import MessageLine, TaskLine
from gridbroker_client.connection import BrokerConnection, Document
from gridbroker_client.names import name_in_path

PAGE = 500
"""Items per page in the methods that go through all pages."""
Value = bool | int | float | str | list[Any] | dict[str, Any]


class BrokerClient(BrokerConnection):
    """A remote broker. Answers are the objects that commands print with ``--json``; type checkers know their fields.

    Every method raises :class:`~gridbroker_client.BrokerProblem` when the broker refuses, and
    :class:`~gridbroker_client.BrokerUnreachable` when it does not answer.
    """

    def __enter__(self) -> BrokerClient:
        return self

    def whoami(self) -> Me:
        """Return the owner of the token and its roles."""
        return cast(Me, self.get("whoami"))

    def tasks(
        self,
        *,
        user: str | None = None,
        status: str | None = None,
        reason: str | None = None,
        queue: str | None = None,
        nucleus: str | None = None,
        gshare: str | None = None,
        since: datetime | None = None,
        after: int | None = None,
        limit: int = 1000,
    ) -> TaskList:
        """List tasks, as ``broker tasks``."""
        moment = None if since is None else since.astimezone(UTC).isoformat()
        filters = {"user": user, "status": status, "reason": reason, "queue": queue, "nucleus": nucleus}
        return cast(TaskList, self.get("tasks", **filters, gshare=gshare, since=moment, after=after, limit=limit))

    def every_task(self, **filters: Any) -> Iterator[TaskLine]:
        """Iterate over all tasks page by page, waiting ones first; filters as of :meth:`tasks`."""
        after: int | None = None
        while True:
            page = self.tasks(**{"limit": PAGE, **filters, "after": after})
            yield from page["tasks"]
            after = page["next_after"]
            if after is None:
                return

    def every_job(self, **filters: Any) -> Iterator[JobLine]:
        """Iterate over all jobs page by page; filters as of :meth:`jobs`."""
        after: int | None = None
        while True:
            page = self.jobs(**{"limit": PAGE, **filters, "after": after})
            yield from page["jobs"]
            after = page["next_after"]
            if after is None:
                return

    def explain(self, jeditaskid: int, *, brokerage: str | None = None, evaluate: bool = False) -> TaskDecision:
        """``broker explain``; ``evaluate``: what would help too, which takes the broker seconds and needs a token."""
        return cast(TaskDecision, self.get(f"tasks/{jeditaskid}/decision", brokerage=brokerage, evaluate=evaluate))

    def decisions(self, jeditaskids: Iterable[int]) -> Document:
        """Return the last decisions about many tasks."""
        return self.send("POST", "tasks:decisions", {"jeditaskids": list(jeditaskids)})

    def why_not(self, jeditaskid: int, queue: str) -> WhyNot:
        """Explain why a queue got no job of a task, as ``broker why-not``."""
        return cast(WhyNot, self.get(f"tasks/{jeditaskid}/why-not/{queue}"))

    def history(self, jeditaskid: int) -> History:
        """List the events of a task in order of time, as ``broker history``."""
        return cast(History, self.get(f"tasks/{jeditaskid}/history"))

    def jobs(self, **filters: Any) -> JobList:
        """List jobs, as ``broker jobs``; filters: task, queue, state, error, after, limit."""
        return cast(JobList, self.get("jobs", **filters))

    def reasons(self, *, brokerage: str | None = None, window_s: float = 3600.0) -> Reasons:
        """Count the reasons of rejections, as ``broker reasons``."""
        return cast(Reasons, self.get("reasons", brokerage=brokerage, window=window_s))

    def queues(self, *, status: str | None = None, site: str | None = None, idle: bool = False) -> Queues:
        """List queues with their state, as ``broker queues``."""
        return cast(Queues, self.get("queues", status=status, site=site, idle=idle))

    def queue(self, queue: str, *, evaluate: bool = False) -> QueueAnswer:
        """``broker queue show``; ``evaluate``: nearest misses too, which takes the broker seconds and needs a token."""
        return cast(QueueAnswer, self.get(f"queues/{queue}", evaluate=evaluate))

    def demand(self, queue: str) -> Document:
        """Return how many workers of each kind a queue can use."""
        return self.get(f"queues/{queue}/demand")

    def nuclei(self) -> Nuclei:
        """List all nuclei, as ``broker nucleus`` without a name."""
        return cast(Nuclei, self.get("nuclei"))

    def nucleus(self, nucleus: str) -> NucleusAnswer:
        """Show one nucleus, as ``broker nucleus``."""
        return cast(NucleusAnswer, self.get(f"nuclei/{nucleus}"))

    def links(
        self,
        *,
        source: str | None = None,
        nucleus: str | None = None,
        full: bool = False,
        after: str | None = None,
        limit: int = 1000,
    ) -> Links:
        """``broker links``; ``after`` is ``next_after`` of the page before."""
        return cast(Links, self.get("links", source=source, nucleus=nucleus, full=full, after=after, limit=limit))

    def shares(self) -> Shares:
        """Show targets and usage of shares, as ``broker shares``."""
        return cast(Shares, self.get("shares"))

    def user(self, user: str) -> UserAnswer:
        """Show the tasks and throttles of a user, as ``broker user``."""
        return cast(UserAnswer, self.get(f"users/{name_in_path(user)}"))

    def job(self, pandaid: int) -> JobAnswer:
        """Return a job and its events."""
        return cast(JobAnswer, self.get(f"jobs/{pandaid}"))

    def pools(self, site: str, ce: str, queue: str, vo: str | None = None) -> Document:
        """``broker pool of``: the SubmitPools that a queue may serve."""
        return self.get("pools", site=site, ce=ce, queue=queue, vo=vo)

    def rules(self, brokerage: str) -> Document:
        """List the rules of a brokerage in order, as ``broker rules``."""
        return self.get(f"rules/{brokerage}")

    def agents(self) -> ServiceAnswer:
        """List agents with their leases and last cycles, as ``broker agents``."""
        return cast(ServiceAnswer, self.get("agents"))

    def alarms(self) -> Alarms:
        """List the alarms in force, as ``broker alarms``."""
        return cast(Alarms, self.get("alarms"))

    def notifications(self, **filters: Any) -> MessageList:
        """List messages of incidents, as ``broker notify history``; filters: since, state, channel, before, limit."""
        return cast(MessageList, self.get("notifications", **filters))

    def every_notification(self, **filters: Any) -> Iterator[MessageLine]:
        """Iterate over all messages page by page, newest first; filters as of :meth:`notifications`."""
        before: int | None = None
        while True:
            page = self.notifications(**{"limit": PAGE, **filters, "before": before})
            yield from page["messages"]
            before = page["next_before"]
            if before is None:
                return

    def subscribe(self, jeditaskid: int, to: str) -> TaskSubscriptions:
        """Subscribe a person to news of a task, as ``broker task subscribe``."""
        return cast(TaskSubscriptions, self.send("POST", f"tasks/{jeditaskid}:subscribe", {"to": to}))

    def unsubscribe(self, jeditaskid: int, to: str) -> TaskSubscriptions:
        """End a subscription, as ``broker task unsubscribe``."""
        return cast(TaskSubscriptions, self.send("POST", f"tasks/{jeditaskid}:unsubscribe", {"to": to}))

    def pause(self, agent: str, *, reason: str, for_s: float) -> Document:
        """Pause an agent for ``for_s`` seconds, as ``broker pause``."""
        return self.send("POST", f"agents/{agent}:pause", {"reason": reason, "for_s": for_s})

    def resume(self, agent: str) -> Document:
        """Resume a paused agent, as ``broker resume``."""
        return self.send("POST", f"agents/{agent}:resume")

    def run(
        self, brokerage: str, *, tasks: Iterable[int] | None = None, seed: int | None = None, independent: bool = False
    ) -> Document:
        """``broker run BROKERAGE --dry-run``."""
        body = {"jeditaskids": None if tasks is None else list(tasks), "seed": seed, "independent": independent}
        return self.send("POST", f"brokerage/{brokerage}:decide", body)

    def feasibility(self, kind: Literal["jdl", "cfg", "sss", "task"], text: str, **options: Any) -> Document:
        """``broker submit --dry-run``: where jobs would go; feasibility, no promise."""
        return self.send("POST", "feasibility", {"kind": kind, "text": text, **options})

    def submit(self, kind: Literal["jdl", "cfg", "sss", "task"], text: str, **options: Any) -> Document:
        """Submit a job or task description, as ``broker submit``."""
        return self.send("POST", "submissions", {"kind": kind, "text": text, **options})

    def submit_task(self, parameters: Mapping[str, Any], **options: Any) -> Document:
        """Submit a task of task parameters, as ``broker task submit``; options: request, count, vo, label, user."""
        return self.send("POST", "tasks", {"parameters": dict(parameters), **options})

    def act_on_task(self, verb: str, jeditaskid: int, **given: Any) -> Document:
        """Kill, finish, retry, pause, resume, reassign, priority or try-now, as ``broker task VERB``."""
        return self.send("POST", f"tasks/{jeditaskid}:{verb}", given)

    def match_job(self, site: str, ce: str, queue: str, **fields: Any) -> Document:
        """``broker match-job``; with ``pilot`` and ``request_number`` a second try gets the same job."""
        return self.send("POST", "jobs:match", {"site": site, "ce": ce, "queue": queue, **fields})

    def report_features(self, report: Mapping[str, Any]) -> Document:
        """Report Machine/Job Features of a pilot, as ``broker features report``."""
        return self.send("POST", "features", dict(report))

    def report_job_status(self, report: Mapping[str, Any]) -> Document:
        """Report the status of a job to its machine, as ``broker job-status report``."""
        return self.send("POST", "job-status", dict(report))

    def sources(self) -> Document:
        """List the stored source documents with their ages."""
        return self.get("sources")

    def put_source(self, name: str, document: bytes, taken_at: datetime) -> Document:
        """``broker import``: send a whole document."""
        digest = hashlib.sha256(document).hexdigest()
        moment = taken_at.astimezone(UTC).isoformat()
        return self.send("PUT", f"sources/{name}", content=document, sha256=digest, taken_at=moment)

    def config_list(self, *, vo: str | None = None, only_set: bool = False) -> Iterator[Document]:
        """List tuning keys with their values in force, as ``broker config list``."""
        return self.pages("config", vo=vo, only_set=only_set, limit=500)

    def config_get(self, key: str, *, vo: str | None = None) -> Document:
        """Show one tuning key, as ``broker config get``."""
        return self.get(f"config/{key}", vo=vo)

    def config_set(
        self,
        key: str,
        value: Value,
        *,
        reason: str,
        vo: str | None = None,
        expect_version: int | None = None,
        may_move: int | None = None,
    ) -> Document:
        """Set a tuning key, as ``broker config set``; ``may_move``: jobs that its preview may move at most."""
        body = {"value": value, "reason": reason, **({} if may_move is None else {"may_move": may_move})}
        return self.send("PUT", f"config/{key}", body, if_match=expect_version, vo=vo)

    def config_unset(
        self, key: str, *, reason: str, vo: str | None = None, expect_version: int | None = None
    ) -> Document:
        """Remove the value of a tuning key, as ``broker config unset``."""
        return self.send("DELETE", f"config/{key}", if_match=expect_version, vo=vo, reason=reason)

    def config_history(self, key: str | None = None) -> Iterator[Document]:
        """List changes of one tuning key or of all, as ``broker config history``."""
        return self.pages("config/history", key=key)

    def config_refused(self, key: str | None = None) -> Iterator[Document]:
        """List changes of one tuning key or of all that were refused, as ``broker config history --refused``."""
        return self.pages("config/refused", key=key)

    def config_diff(self, first: int, second: int) -> Iterator[Document]:
        """List the differences of two versions, as ``broker config diff``."""
        return self.pages("config/diff", first=first, second=second)

    def config_rollback(self, version: int, *, reason: str = "", expect_version: int | None = None) -> Document:
        """Restore the values of an older version, as ``broker config rollback``."""
        return self.send("POST", "config:rollback", {"version": version, "reason": reason}, if_match=expect_version)

    def config_preview(self, values: Mapping[str, Value], *, vo: str | None = None) -> Document:
        """``broker config set --preview``: a run."""
        return self.send("POST", "config:preview", {"set": dict(values), "vo": vo})

    def canaries(self) -> Iterator[Document]:
        """List what was tried, as ``broker config canary``."""
        return self.pages("canaries")

    def canary(
        self, values: Mapping[str, Value], *, share: float, for_s: float, reason: str, may_move: int | None = None
    ) -> Document:
        """``broker config canary KEY=VALUE``; ``may_move``: jobs that a preview of the values may move at most."""
        body = {"values": dict(values), "share": share, "for_s": for_s, "reason": reason}
        body |= {} if may_move is None else {"may_move": may_move}
        return self.send("POST", "canaries", body)

    def canary_stop(self) -> Document:
        """``broker config canary --stop``."""
        return self.send("POST", "canaries:stop")

    def pins(self, queue: str | None = None) -> Iterator[Document]:
        """List the fields of queues that operators hold."""
        return self.pages("pins", queue=queue)

    def pin(self, queue: str, field: str, value: Value, *, reason: str, for_s: float) -> Document:
        """Hold a field of a queue for ``for_s`` seconds, as ``broker queue set``."""
        body = {"value": value, "reason": reason, "for_s": for_s}
        return self.send("PUT", f"queues/{queue}/pins/{field}", body)

    def unpin(self, queue: str, field: str) -> Document:
        """End the pin of a field of a queue, as ``broker queue unset``."""
        return self.send("DELETE", f"queues/{queue}/pins/{field}")

    def what_if(self, **options: Any) -> Document:
        """``broker what-if``: a run; see its number in :meth:`run_state`."""
        return self.send("POST", "what-if", options)

    def sweep(self, ranges: Iterable[str], **options: Any) -> Document:
        """``broker sweep``: a run."""
        return self.send("POST", "sweep", {"ranges": list(ranges), **options})

    def replay(self, **options: Any) -> Document:
        """``broker replay``: a run."""
        return self.send("POST", "replay", options)

    def run_state(self, run: int) -> Document:
        """Return the progress of a run, and its result once it has ended."""
        return self.get(f"runs/{run}")

    def simulations(self) -> Iterator[Document]:
        """List the simulations that ``broker simulate --store`` kept, newest first."""
        return self.pages("simulations")

    def simulation(self, number: int) -> Document:
        """Return a stored simulation: figures by policy, differences, and curves."""
        return self.get(f"simulations/{number}")

    def run_cancel(self, run: int) -> Document:
        """Cancel a run that has not ended."""
        return self.send("POST", f"runs/{run}:cancel")
