"""``broker --server URL ...``: the same commands against a broker elsewhere, with a token.

The arguments are read by the commands themselves; what they would ask of the database is asked of the API.

Answers of a broker elsewhere, read back into their models and printed by the commands' own functions.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, cast

import typer
from pydantic import TypeAdapter, ValidationError

from broker.cli.application import build_app
from broker.cli.context import duration
from broker.cli.failing import emit_error, print_error, wants_json
from broker.cli.output import Column, print_json, print_table
from broker.decisions.answers.decision_model import TaskDecision, WhyNot
from broker.decisions.commands.explain import show_explained, show_why_not
from broker.errors import WRONG_USAGE, BrokerError
from broker.feature import commands
from broker.fetching.web import shown
from broker.grid.answers.models import Links, Nuclei, NucleusAnswer, QueueAnswer, Queues, Shares
from broker.grid.commands.links import show_links
from broker.grid.commands.nucleus import show_nuclei, show_nucleus
from broker.grid.commands.queues import show_queue_answer, show_queues
from broker.grid.commands.shares import show_shares
from broker.history.answers.history import History
from broker.history.answers.job_models import JobAnswer, JobFilters, JobList
from broker.history.answers.list_models import Reasons, TaskList, UserAnswer
from broker.history.commands.history import show_history
from broker.history.commands.jobs import show_job, show_jobs
from broker.history.commands.reasons import show_reasons
from broker.history.commands.tasks import show_task_list
from broker.history.commands.user import show_user
from broker.service.answers.models import Alarms, ServiceAnswer
from broker.service.commands.agents import show_agents
from broker.service.commands.alarms import show_alarms
from broker.settings import read_settings
from broker.tasks.commands.task import read_parameters
from broker.tasks.commands.verbs import given_parameters
from broker.tasks.model.verbs import VERBS
from gridbroker_client import BrokerClient, BrokerProblem, BrokerUnreachable, find_token, token_from_file

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
    filters = {name: given.get(name) for name in JobFilters.model_fields if name != "limit"}
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


Documents = Iterable[Mapping[str, Any]]
LOOPBACK = ("://127.0.0.1", "://localhost", "://[::1]")
SHOWN_COLUMNS = 8
WRONG_ARGUMENTS: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
"""The base of what is raised for wrong arguments: of click, or of the copy of it that newer versions of Typer hold."""


def main(server: str, token_file: str | None, arguments: Sequence[str]) -> NoReturn:
    """Run one command against the broker at ``server`` and end the process with its exit status."""
    as_json = wants_json(arguments)
    try:
        path, given = _parsed(arguments)
        with BrokerClient(server, _token(server, token_file)) as client:
            if path in ANSWERS:
                ANSWERS[path].show(client, given, as_json)
            elif (serve := _serving(path)) is not None:
                serve(client, given)
            else:
                _show(list(_handler(path)(client, given)), as_json)
    except typer.Exit as ended:
        raise SystemExit(ended.exit_code) from None
    except WRONG_ARGUMENTS as error:
        if as_json:
            print_error(WRONG_USAGE, error.format_message(), "", "see --help")
        else:
            error.show()
        raise SystemExit(error.exit_code) from None
    except (BrokerProblem, BrokerUnreachable, OSError, BrokerError) as error:
        found = _as_ours(error, server)
        emit_error(found, as_json)
        raise SystemExit(found.exit_status) from None
    raise SystemExit(0)


def _as_ours(error: Exception, server: str) -> BrokerError:
    """The error as if it had happened here: with its exit status, and what to do."""
    if isinstance(error, BrokerError):
        return error
    address = shown(server)
    if not isinstance(error, BrokerProblem):
        what = str(error).replace(server, address)
        return BrokerError(what, address, "see the address, the network and the broker there")
    what = "; ".join(part for part in (error.code, error.detail) if part)
    where = f"{address}, request {error.request_id}" if error.request_id else address
    found = BrokerError(what, where, error.remedy or "see the log of the broker there")
    found.exit_status = error.exit_status
    return found


def _parsed(arguments: Sequence[str]) -> tuple[str, Arguments]:
    """The command and its arguments, as the command itself reads them."""
    first = next((word for word in arguments if not word.startswith("-")), None)
    command: Any = typer.main.get_command(build_app(first))
    context = command.make_context("broker", list(arguments))
    names: list[str] = []
    while hasattr(command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", []), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        names.append(str(name))
        context = command.make_context(name, rest, parent=context)
    return " ".join(names), dict(context.params)


def _token(server: str, token_file: str | None) -> Callable[[], str | None]:
    if token_file is not None:
        return token_from_file(Path(token_file))
    own = read_settings().home / "api-token"
    if any(mark in server for mark in LOOPBACK) and own.is_file() and "BEARER_TOKEN" not in os.environ:
        return token_from_file(own)
    return find_token(os.environ)


def _serving(path: str) -> Callable[[BrokerClient, Arguments], None] | None:
    """What a command that serves does with a broker elsewhere; None of the others."""
    target = next((one.elsewhere for one in commands() if one.name == path and one.elsewhere), None)
    if target is None:
        return None
    module, _, name = target.partition(":")
    return cast("Callable[[BrokerClient, Arguments], None]", getattr(importlib.import_module(module), name))


def _handler(path: str) -> Callable[[BrokerClient, Arguments], Documents]:
    found = HANDLERS.get(path)
    if found is None:
        known = ", ".join((*ANSWERS, *HANDLERS))
        raise NotRemote(f"broker {path} works on the broker's own machine", "--server", f"elsewhere: {known}")
    return found


def _show(documents: list[Mapping[str, Any]], as_json: bool) -> None:
    if as_json or len(documents) == 1:
        for one in documents:
            print_json(one)
        return
    names = list(dict.fromkeys(name for one in documents for name, value in one.items() if _is_plain(value)))
    columns = [Column(name) for name in names[:SHOWN_COLUMNS]]
    print_table(columns, [[one.get(column) for column in names[:SHOWN_COLUMNS]] for one in documents])


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _run(client: BrokerClient, given: Arguments) -> Documents:
    if not (given.get("dry_run") or given.get("independent")):
        raise NotRemote("a cycle that writes runs on the broker's own machine", "broker run", "give --dry-run")
    tasks = given.get("task") or None
    independent = bool(given.get("independent"))
    found = client.run(given["agent"], tasks=tasks, seed=given.get("seed"), independent=independent)
    return found["decisions"]  # type: ignore[no-any-return]


def _submit(client: BrokerClient, given: Arguments) -> Documents:
    file = Path(given["file"])
    kinds: dict[str, Any] = {".jdl": "jdl", ".cfg": "cfg", ".xml": "sss"}
    kind = kinds.get(file.suffix.lower())
    if kind is None:
        raise NotRemote(f"unknown kind of file: {file.suffix}", str(file), f"known are {', '.join(kinds)}")
    options = {name: given[name] for name in ("user", "vo", "label", "nucleus", "ignore_nodes") if given.get(name)}
    options |= {
        new: list(given[old]) for old, new in (("share", "shares"), ("queue_name", "queue_names")) if given.get(old)
    }
    text = file.read_text(encoding="utf-8")
    if given.get("dry_run"):
        return [client.feasibility(kind, text, **options)]
    return client.submit(kind, text, **options)["tasks"]  # type: ignore[no-any-return]


def _submit_task(client: BrokerClient, given: Arguments) -> Documents:
    for name, shown_name in (("dry_run", "--dry-run"), ("files", "--files"), ("at", "--at")):
        if given.get(name):
            raise NotRemote("it is read on the broker's own machine", shown_name, f"leave out {shown_name}")
    options = {name: given[name] for name in ("user", "vo", "label", "nucleus", "count", "request") if given.get(name)}
    made = client.submit_task(read_parameters(given["file"]), **options)
    return [{name: made[name] for name in ("jeditaskid", "jobs", "notes")}]


def _act_on_task(verb: str) -> Callable[[BrokerClient, Arguments], Documents]:
    """Asks a verb of a task; the editor is whom the token names."""

    def ask(client: BrokerClient, given: Arguments) -> Documents:
        said: dict[str, Any] = {"reason": given["reason"]}
        if verb == "finish":
            said["soft"] = given["soft"]
        elif verb == "retry":
            said["new_parameters"] = given_parameters(given["new"], given["new_parameters"])
        elif verb == "reassign":
            said |= {name: given[name] for name in ("site", "nucleus", "anew")}
        elif verb == "priority":
            said["priority"] = given["value"]
        return [client.act_on_task(verb, given["task"], **said)]

    return ask


def _match(client: BrokerClient, given: Arguments) -> Documents:
    names = {"vo": "vo", "cpu_time": "cpu_time_s", "resource_type": "resource_type", "owner": "owner"}
    fields = {new: given[old] for old, new in names.items() if given.get(old) is not None}
    fields |= {"owner_group": given["owner_group"]} if given.get("owner_group") else {}
    fields["platforms"] = list(given.get("platform") or ())
    return [client.match_job(given["site"], given["ce"], given["queue"], **fields)]


def _set(client: BrokerClient, given: Arguments) -> Documents:
    expected = given.get("expect_version")
    return [
        client.config_set(given["key"], given["value"], reason=given["reason"], vo=given["vo"], expect_version=expected)
    ]


def _pins(client: BrokerClient, given: Arguments) -> Documents:
    for text in given["values"]:
        field, _, value = text.partition("=")
        for_s = duration(given["ends"], "--until").total_seconds()
        yield client.pin(given["queue"], field, value, reason=given["reason"], for_s=for_s)


HANDLERS: Mapping[str, Callable[[BrokerClient, Arguments], Documents]] = {
    "queue set": _pins,
    "queue unset": lambda c, a: [c.unpin(a["queue"], field) for field in a["fields"]],
    "pause": lambda c, a: [c.pause(a["agent"], reason=a["reason"], for_s=seconds(a["ends"], 0))],
    "resume": lambda c, a: [c.resume(a["agent"])],
    "run": _run,
    "submit": _submit,
    "task submit": _submit_task,
    **{f"task {verb}": _act_on_task(verb) for verb in VERBS},
    "match-job": _match,
    "config list": lambda c, a: c.config_list(vo=a["vo"], only_set=bool(a.get("only_set"))),
    "config get": lambda c, a: [c.config_get(a["key"], vo=a["vo"])],
    "config set": _set,
    "config unset": lambda c, a: [
        c.config_unset(a["key"], reason=a["reason"], vo=a["vo"], expect_version=a.get("expect_version"))
    ],
    "config history": lambda c, a: c.config_history(a.get("key")),
    "config diff": lambda c, a: c.config_diff(a["first"], a["second"]),
    "config rollback": lambda c, a: [
        c.config_rollback(a["version"], reason=a.get("reason") or "", expect_version=a.get("expect_version"))
    ],
}
"""What each further command asks of a broker elsewhere. Another command is one more entry."""
