"""Answers of a broker elsewhere, read back into their models and printed by the commands' own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from broker.cli.rendering.json_lines import print_json
from broker.cli.time_arguments import duration
from broker.decisions.answers.decision_model import TaskDecision, WhyNot
from broker.decisions.commands.explain import show_why_not
from broker.decisions.commands.explain_text import show_explained
from broker.errors import WRONG_USAGE, BrokerError
from broker.grid.answers.models import Links, Nuclei, NucleusAnswer, QueueAnswer, Queues, Shares
from broker.grid.commands.links import show_links
from broker.grid.commands.nucleus import show_nuclei, show_nucleus
from broker.grid.commands.queues import show_queue_answer, show_queues
from broker.grid.commands.shares import show_shares
from broker.history.answers.history import History
from broker.history.answers.job_models import JobAnswer, JobList
from broker.history.answers.list_models import Reasons, TaskList, UserAnswer
from broker.history.commands.history import show_history
from broker.history.commands.jobs import show_job, show_jobs
from broker.history.commands.reasons import show_reasons
from broker.history.commands.tasks import show_task_list
from broker.history.commands.user import show_user
from broker.service.answers.models import Alarms, ServiceAnswer
from broker.service.commands.agents import show_agents
from broker.service.commands.alarms import show_alarms
from gridbroker_client import BrokerClient

Arguments = Mapping[str, Any]
Document = Mapping[str, Any]
TASK_FILTERS = ("user", "status", "reason", "queue", "nucleus", "gshare")
MOST_LINES = 10_000
"""The longest page that the API gives."""


class NotRemote(BrokerError):
    """The command, or an option of it, needs the broker's own machine."""

    exit_status = WRONG_USAGE


class OtherVersion(BrokerError):
    """The broker elsewhere answers in another form than this version reads."""


@dataclass(frozen=True)
class RemoteAnswer:
    """A command that shows an answer.

    Attributes:
        ask: asks the API for it.
        model: of the answer.
        table: prints it, as the command does on the broker's own machine.
        items: the field whose items ``--json`` prints one a line; the whole answer without it.
    """

    ask: Callable[[BrokerClient, Arguments], Document]
    model: Any
    table: Callable[[Any], None]
    items: str | None = None

    def show(self, client: BrokerClient, given: Arguments, as_json: bool) -> None:
        """Ask, and print what is answered.

        Raises:
            OtherVersion: the answer has not the form of the model.
        """
        document = self.ask(client, given)
        if as_json:
            for one in [document] if self.items is None else document[self.items]:
                print_json(one)
            return
        try:
            found = TypeAdapter(self.model).validate_python(document)
        except ValidationError as error:
            field = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise OtherVersion(
                "the broker there is of another version", f"field {field} of its answer", "give --json"
            ) from error
        self.table(found)


def seconds(text: str | None, default_s: float) -> float:
    """A length of time as an option gives it, in seconds."""
    return default_s if text is None else duration(text, "SPAN").total_seconds()


def _tasks(client: BrokerClient, given: Arguments) -> Document:
    span = given.get("since")
    since = None if span is None else datetime.now(UTC) - duration(span, "--since")
    filters = {name: given.get(name) for name in TASK_FILTERS}
    return client.tasks(**filters, since=since, limit=min(given["limit"], MOST_LINES))


def _jobs(client: BrokerClient, given: Arguments) -> Document:
    filters = {name: given.get(name) for name in ("task", "queue", "state", "error", "after")}
    return client.jobs(**filters, limit=min(given["limit"], MOST_LINES))


def _reasons(client: BrokerClient, given: Arguments) -> Document:
    if given.get("rules"):
        raise NotRemote("the counts by rule are read on the broker's own machine", "--rules", "leave it out")
    return client.reasons(brokerage=given.get("brokerage"), window_s=seconds(given.get("compare"), 3600))


def _explain(client: BrokerClient, given: Arguments) -> Document:
    evaluate = bool(given.get("evaluate", True)) and client.has_token
    return client.explain(given["task"], brokerage=given.get("brokerage"), evaluate=evaluate)


def _queues(client: BrokerClient, given: Arguments) -> Document:
    return client.queues(status=given.get("status"), site=given.get("site"), idle=bool(given.get("idle")))


def _nucleus(client: BrokerClient, given: Arguments) -> Document:
    return client.nuclei() if given["name"] is None else client.nucleus(given["name"])


def _show_nuclei(found: Nuclei | NucleusAnswer) -> None:
    if isinstance(found, Nuclei):
        show_nuclei(found)
    else:
        show_nucleus(found)


def _links(client: BrokerClient, given: Arguments) -> Document:
    limit = min(given["limit"], MOST_LINES)
    return client.links(
        source=given.get("source"), nucleus=given.get("nucleus"), full=bool(given.get("full")), limit=limit
    )


def _show_agents(found: ServiceAnswer) -> None:
    show_agents(found.agents, found.now)


ANSWERS: Mapping[str, RemoteAnswer] = {
    "tasks": RemoteAnswer(_tasks, TaskList, show_task_list, "tasks"),
    "reasons": RemoteAnswer(_reasons, Reasons, show_reasons),
    "explain": RemoteAnswer(_explain, TaskDecision, show_explained),
    "why-not": RemoteAnswer(lambda c, a: c.why_not(a["task"], a["queue"]), WhyNot, show_why_not, "answers"),
    "history": RemoteAnswer(lambda c, a: c.history(a["task"]), History, show_history, "events"),
    "jobs": RemoteAnswer(_jobs, JobList, show_jobs, "jobs"),
    "job": RemoteAnswer(lambda c, a: c.job(a["pandaid"]), JobAnswer, show_job),
    "queues": RemoteAnswer(_queues, Queues, show_queues, "queues"),
    "queue show": RemoteAnswer(lambda c, a: c.queue(a["queue"], evaluate=c.has_token), QueueAnswer, show_queue_answer),
    "nucleus": RemoteAnswer(_nucleus, Nuclei | NucleusAnswer, _show_nuclei),
    "links": RemoteAnswer(_links, Links, show_links, "links"),
    "shares": RemoteAnswer(lambda c, a: c.shares(), Shares, show_shares, "shares"),
    "user": RemoteAnswer(lambda c, a: c.user(a["name"]), UserAnswer, show_user),
    "agents": RemoteAnswer(lambda c, a: c.agents(), ServiceAnswer, _show_agents, "agents"),
    "alarms": RemoteAnswer(lambda c, a: c.alarms(), Alarms, show_alarms, "alarms"),
}
"""What each command that shows an answer asks of a broker elsewhere, and how it is printed."""
