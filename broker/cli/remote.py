"""``broker --server URL ...``: the same commands against a remote broker, with a token.

The commands themselves parse their arguments; the API is queried in place of the database. Its answers are read back
into their models and printed by the commands' own functions.
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
from gridbroker_client import BrokerClient, BrokerProblem, BrokerUnreachable, NoToken, find_token, token_from_file

Arguments = Mapping[str, Any]
Document = Mapping[str, Any]
TASK_FILTERS = ("user", "status", "reason", "queue", "nucleus", "gshare")
MOST_LINES = 10_000
"""The maximum page length of the API."""


class NotRemote(BrokerError):
    """The command, or an option of it, needs the broker's own machine."""

    exit_status = WRONG_USAGE


class OtherVersion(BrokerError):
    """The remote broker answers in a form that this version does not read."""


@dataclass(frozen=True)
class RemoteAnswer:
    """A command that shows one answer.

    Attributes:
        ask: requests the answer from the API.
        model: model of the answer.
        table: prints the answer, as the command does on the broker's own machine.
        items: the field whose items ``--json`` prints one a line; None prints the whole answer.
    """

    ask: Callable[[BrokerClient, Arguments], Document]
    model: Any
    table: Callable[[Any], None]
    items: str | None = None

    def show(self, client: BrokerClient, given: Arguments, as_json: bool) -> None:
        """Request the answer and print it.

        Raises:
            OtherVersion: the answer does not match the model.
        """
        document = self.ask(client, given)
        if as_json:
            for item in [document] if self.items is None else document[self.items]:
                print_json(item)
            return
        try:
            result = TypeAdapter(self.model).validate_python(document)
        except ValidationError as error:
            field = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise OtherVersion(
                "the broker there is of another version", f"field {field} of its answer", "give --json"
            ) from error
        self.table(result)


def seconds(text: str | None, default_s: float) -> float:
    """Parse the duration of an option, in seconds."""
    return default_s if text is None else duration(text, "SPAN").total_seconds()


def _tasks(client: BrokerClient, arguments: Arguments) -> Document:
    span = arguments.get("since")
    since = None if span is None else datetime.now(UTC) - duration(span, "--since")
    filters = {name: arguments.get(name) for name in TASK_FILTERS}
    return client.tasks(**filters, since=since, limit=min(arguments["limit"], MOST_LINES))


def _jobs(client: BrokerClient, arguments: Arguments) -> Document:
    filters = {name: arguments.get(name) for name in JobFilters.model_fields if name != "limit"}
    return client.jobs(**filters, limit=min(arguments["limit"], MOST_LINES))


def _reasons(client: BrokerClient, arguments: Arguments) -> Document:
    if arguments.get("rules"):
        raise NotRemote("the counts by rule are read on the broker's own machine", "--rules", "leave it out")
    return client.reasons(brokerage=arguments.get("brokerage"), window_s=seconds(arguments.get("compare"), 3600))


def _explain(client: BrokerClient, arguments: Arguments) -> Document:
    evaluate = bool(arguments.get("evaluate", True)) and client.has_token
    return client.explain(arguments["task"], brokerage=arguments.get("brokerage"), evaluate=evaluate)


def _queues(client: BrokerClient, arguments: Arguments) -> Document:
    return client.queues(status=arguments.get("status"), site=arguments.get("site"), idle=bool(arguments.get("idle")))


def _nucleus(client: BrokerClient, arguments: Arguments) -> Document:
    return client.nuclei() if arguments["name"] is None else client.nucleus(arguments["name"])


def _show_nuclei(answer: Nuclei | NucleusAnswer) -> None:
    if isinstance(answer, Nuclei):
        show_nuclei(answer)
    else:
        show_nucleus(answer)


def _links(client: BrokerClient, arguments: Arguments) -> Document:
    limit = min(arguments["limit"], MOST_LINES)
    return client.links(
        source=arguments.get("source"), nucleus=arguments.get("nucleus"), full=bool(arguments.get("full")), limit=limit
    )


def _show_agents(answer: ServiceAnswer) -> None:
    show_agents(answer.agents, answer.now)


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
"""The request to a remote broker for each command that shows an answer, and how the answer is printed."""


Documents = Iterable[Mapping[str, Any]]
LOOPBACK = ("://127.0.0.1", "://localhost", "://[::1]")
SHOWN_COLUMNS = 8
WRONG_ARGUMENTS: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
"""The base class of errors for wrong arguments: Click's, or that of the copy which newer versions of Typer bundle."""


def main(server: str, token_file: str | None, arguments: Sequence[str]) -> NoReturn:
    """Run one command against the broker at ``server`` and end the process with its exit status."""
    as_json = wants_json(arguments)
    try:
        path, command_arguments = _parsed(arguments)
        with BrokerClient(server, _token(server, token_file)) as client:
            if path in ANSWERS:
                ANSWERS[path].show(client, command_arguments, as_json)
            elif (serve := _serving(path)) is not None:
                serve(client, command_arguments)
            else:
                _show(list(_handler(path)(client, command_arguments)), as_json)
    except typer.Exit as ended:
        raise SystemExit(ended.exit_code) from None
    except WRONG_ARGUMENTS as error:
        if as_json:
            print_error(WRONG_USAGE, error.format_message(), "", "see --help")
        else:
            error.show()
        raise SystemExit(error.exit_code) from None
    except (BrokerProblem, BrokerUnreachable, NoToken, OSError, BrokerError) as error:
        converted = _convert_error(error, server)
        emit_error(converted, as_json)
        raise SystemExit(converted.exit_status) from None
    raise SystemExit(0)


def _convert_error(error: Exception, server: str) -> BrokerError:
    """Convert an error as if it had happened here: with its exit status, and a remedy."""
    if isinstance(error, BrokerError):
        return error
    if isinstance(error, NoToken):
        return BrokerError("its first line holds no token", str(error.file), "write the token there, or name another")
    address = shown(server)
    if not isinstance(error, BrokerProblem):
        message = str(error).replace(server, address)
        return BrokerError(message, address, "see the address, the network and the broker there")
    message = "; ".join(part for part in (error.code, error.detail) if part)
    where = f"{address}, request {error.request_id}" if error.request_id else address
    converted = BrokerError(message, where, error.remedy or "see the log of the broker there")
    converted.exit_status = error.exit_status
    return converted


def _parsed(arguments: Sequence[str]) -> tuple[str, Arguments]:
    """Parse the command and its arguments, as the command itself does."""
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
    own_token = read_settings().home / "api-token"
    if any(mark in server for mark in LOOPBACK) and own_token.is_file() and "BEARER_TOKEN" not in os.environ:
        return token_from_file(own_token)
    return find_token(os.environ)


def _serving(path: str) -> Callable[[BrokerClient, Arguments], None] | None:
    """Return what a serving command does with a remote broker; None for other commands."""
    target = next((command.elsewhere for command in commands() if command.name == path and command.elsewhere), None)
    if target is None:
        return None
    module, _, name = target.partition(":")
    return cast("Callable[[BrokerClient, Arguments], None]", getattr(importlib.import_module(module), name))


def _handler(path: str) -> Callable[[BrokerClient, Arguments], Documents]:
    handler = HANDLERS.get(path)
    if handler is None:
        known = ", ".join((*ANSWERS, *HANDLERS))
        raise NotRemote(f"broker {path} works on the broker's own machine", "--server", f"elsewhere: {known}")
    return handler


def _show(documents: list[Mapping[str, Any]], as_json: bool) -> None:
    if as_json or len(documents) == 1:
        for document in documents:
            print_json(document)
        return
    names = list(dict.fromkeys(name for document in documents for name, value in document.items() if _is_plain(value)))
    columns = [Column(name) for name in names[:SHOWN_COLUMNS]]
    print_table(columns, [[document.get(column) for column in names[:SHOWN_COLUMNS]] for document in documents])


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _run(client: BrokerClient, arguments: Arguments) -> Documents:
    if not (arguments.get("dry_run") or arguments.get("independent")):
        raise NotRemote("a cycle that writes runs on the broker's own machine", "broker run", "give --dry-run")
    tasks = arguments.get("task") or None
    independent = bool(arguments.get("independent"))
    answer = client.run(arguments["agent"], tasks=tasks, seed=arguments.get("seed"), independent=independent)
    return answer["decisions"]  # type: ignore[no-any-return]


def _submit(client: BrokerClient, arguments: Arguments) -> Documents:
    file = Path(arguments["file"])
    kinds: dict[str, Any] = {".jdl": "jdl", ".cfg": "cfg", ".xml": "sss"}
    kind = kinds.get(file.suffix.lower())
    if kind is None:
        raise NotRemote(f"unknown kind of file: {file.suffix}", str(file), f"known are {', '.join(kinds)}")
    options = {
        name: arguments[name] for name in ("user", "vo", "label", "nucleus", "ignore_nodes") if arguments.get(name)
    }
    options |= {
        option: list(arguments[argument])
        for argument, option in (("share", "shares"), ("queue_name", "queue_names"))
        if arguments.get(argument)
    }
    text = file.read_text(encoding="utf-8")
    if arguments.get("dry_run"):
        return [client.feasibility(kind, text, **options)]
    return client.submit(kind, text, **options)["tasks"]  # type: ignore[no-any-return]


def _submit_task(client: BrokerClient, arguments: Arguments) -> Documents:
    for name, shown_name in (("dry_run", "--dry-run"), ("files", "--files"), ("at", "--at")):
        if arguments.get(name):
            raise NotRemote("it is read on the broker's own machine", shown_name, f"leave out {shown_name}")
    options = {
        name: arguments[name] for name in ("user", "vo", "label", "nucleus", "count", "request") if arguments.get(name)
    }
    task = client.submit_task(read_parameters(arguments["file"]), **options)
    return [{name: task[name] for name in ("jeditaskid", "jobs", "notes")}]


def _act_on_task(verb: str) -> Callable[[BrokerClient, Arguments], Documents]:
    """Return the request for a verb on a task; the editor is the subject of the token."""

    def ask(client: BrokerClient, arguments: Arguments) -> Documents:
        body: dict[str, Any] = {"reason": arguments["reason"]}
        if verb == "finish":
            body["soft"] = arguments["soft"]
        elif verb == "retry":
            body["new_parameters"] = given_parameters(arguments["new"], arguments["new_parameters"])
        elif verb == "reassign":
            body |= {name: arguments[name] for name in ("site", "nucleus", "anew")}
        elif verb == "priority":
            body["priority"] = arguments["value"]
        return [client.act_on_task(verb, arguments["task"], **body)]

    return ask


def _match(client: BrokerClient, arguments: Arguments) -> Documents:
    names = {"vo": "vo", "cpu_time": "cpu_time_s", "resource_type": "resource_type", "owner": "owner"}
    fields = {field: arguments[argument] for argument, field in names.items() if arguments.get(argument) is not None}
    fields |= {"owner_group": arguments["owner_group"]} if arguments.get("owner_group") else {}
    fields["platforms"] = list(arguments.get("platform") or ())
    return [client.match_job(arguments["site"], arguments["ce"], arguments["queue"], **fields)]


def _set(client: BrokerClient, arguments: Arguments) -> Documents:
    expected = arguments.get("expect_version")
    return [
        client.config_set(
            arguments["key"],
            arguments["value"],
            reason=arguments["reason"],
            vo=arguments["vo"],
            expect_version=expected,
        )
    ]


def _pins(client: BrokerClient, arguments: Arguments) -> Documents:
    for text in arguments["values"]:
        field, _, value = text.partition("=")
        for_s = duration(arguments["ends"], "--until").total_seconds()
        yield client.pin(arguments["queue"], field, value, reason=arguments["reason"], for_s=for_s)


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
"""The request to a remote broker for each other command. A new command needs one more entry."""
