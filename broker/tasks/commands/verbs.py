"""``broker task kill|finish|retry|pause|resume|reassign|priority|try-now``: the verbs of a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from broker.cli.context import moment_of, open_store
from broker.cli.elsewhere import Arguments, Documents, RemoteDocuments
from broker.cli.output import print_json, print_table, remark
from broker.tasks.answers.task_verbs import Actor, TaskActedOn, VerbRequest, act_on_task, verb_history
from broker.tasks.model.verbs import VERBS, Target, Verb, WrongVerb
from broker.tuning.answers.values import Editor, editor_name
from broker.yaml_text import read_yaml

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

Task = Annotated[int, typer.Argument(metavar="TASK", help="The task (jeditaskid).")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the history.")]
Json = Annotated[bool, typer.Option("--json", help="One object: status before and after, files, jobs, notes.")]


def kill(context: typer.Context, task: Task, reason: Reason = "", editor: Editor = None, as_json: Json = False) -> None:
    """End a task: waiting jobs end at once, pilots of running ones are ordered to stop; what is finished stays."""
    _act(context, VerbRequest("kill", task, reason), editor, as_json)


def finish(
    context: typer.Context,
    task: Task,
    soft: Annotated[bool, typer.Option("--soft", help="Let existing jobs run to their end.")] = False,
    reason: Reason = "",
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Create no more jobs for a task, and end it with what is finished."""
    _act(context, VerbRequest("finish", task, reason, soft=soft), editor, as_json)


def retry(
    context: typer.Context,
    task: Task,
    new: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A task parameter that changes, such as ramCount=4000 (MB)."),
    ] = None,
    new_parameters: Annotated[
        Path | None, typer.Option("--new-parameters", metavar="FILE", help="The same from a file: .yaml or .json.")
    ] = None,
    reason: Reason = "",
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Give new attempts to files that have none left; a task that has ended runs again."""
    request = VerbRequest("retry", task, reason, new_parameters=given_parameters(new, new_parameters))
    _act(context, request, editor, as_json)


def pause(
    context: typer.Context, task: Task, reason: Reason = "", editor: Editor = None, as_json: Json = False
) -> None:
    """Create no more jobs for a task until it is resumed; existing jobs go on."""
    _act(context, VerbRequest("pause", task, reason), editor, as_json)


def resume(
    context: typer.Context, task: Task, reason: Reason = "", editor: Editor = None, as_json: Json = False
) -> None:
    """Resume a paused task."""
    _act(context, VerbRequest("resume", task, reason), editor, as_json)


def reassign(
    context: typer.Context,
    task: Task,
    site: Annotated[str | None, typer.Option("--site", help="Only to these queues, comma-separated.")] = None,
    nucleus: Annotated[str | None, typer.Option("--nucleus", help="To this nucleus.")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="To the nucleus that the brokerage chooses now.")] = False,
    reason: Reason = "",
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Send a task elsewhere: jobs that no pilot has are taken back and created anew there."""
    target = Target(site, nucleus, anew).checked()
    _act(context, VerbRequest("reassign", task, reason, target=target), editor, as_json)


def priority(
    context: typer.Context,
    task: Task,
    value: Annotated[int, typer.Argument(metavar="PRIORITY", help="0 to 100,000; higher goes first.")],
    reason: Reason = "",
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Change the priority of a task and of its waiting jobs."""
    _act(context, VerbRequest("priority", task, reason, priority=value), editor, as_json)


def try_now(
    context: typer.Context, task: Task, reason: Reason = "", editor: Editor = None, as_json: Json = False
) -> None:
    """Consider a task that waits for its time in the next cycle, even if another process leads."""
    _act(context, VerbRequest("try-now", task, reason), editor, as_json)


def audit(context: typer.Context, task: Task, as_json: Json = False) -> None:
    """List who requested what of a task, when and why, oldest first."""
    with open_store(context) as database:
        records = verb_history(database, task)
    if as_json:
        for record in records:
            print_json(dict(record._mapping))
        return
    rows = [
        (
            record.asked_at,
            record.editor,
            record.verb,
            f"{record.old_status} -> {record.new_status}",
            _arguments(record.detail),
            record.reason,
        )
        for record in records
    ]
    print_table(("time", "by", "verb", "status", "with", "reason"), rows, title=f"Task {task}: what was asked of it")


def _arguments(detail: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in detail.items())


def _act(context: typer.Context, request: VerbRequest, editor: str | None, as_json: bool) -> None:
    actor = Actor(editor_name(editor), is_operator=True)
    with open_store(context) as database:
        done = act_on_task(database, request, actor, moment_of(None, database))
    show_act(done, as_json)


def show_act(done: TaskActedOn, as_json: bool) -> None:
    """Print what a verb did."""
    if as_json:
        print_json(done)
        return
    columns = ("task", "verb", "was", "is", "jobs", "told to stop", "files")
    row = (done.jeditaskid, done.verb, done.old_status, done.status, done.jobs, done.told, done.files)
    print_table(columns, [row])
    for note in done.notes:
        remark(f"task {done.jeditaskid}: {note}")
    if done.told or done.left:
        remark(f"task {done.jeditaskid}: it ends when its last jobs have; the agent completion sees to it")


def given_parameters(words: list[str] | None, file: Path | None) -> dict[str, Any]:
    """Task parameters from a file and from words NAME=VALUE, which take precedence.

    Raises:
        WrongVerb: they cannot be read.
    """
    return {**_from_file(file), **_pairs(words or [])}


def _pairs(words: list[str]) -> dict[str, Any]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise WrongVerb(f"not usable: {word[:200]}", "--set", "write NAME=VALUE, such as ramCount=4000")
        pairs[name] = value
    return pairs


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        parameters = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        what = " ".join(str(error).split())
        raise WrongVerb(f"it cannot be read: {what}", str(file), "name a file of task parameters") from error
    if not isinstance(parameters, dict):
        raise WrongVerb("it holds no object of parameters", str(file), "write ramCount: 4000 and so on")
    return parameters


def _act_elsewhere(verb: Verb) -> RemoteDocuments:
    """Return the request for a verb on a task; the editor is the subject of the token."""

    def ask(client: BrokerClient, given: Arguments) -> Documents:
        body: dict[str, Any] = {"reason": given["reason"]}
        if verb == "finish":
            body["soft"] = given["soft"]
        elif verb == "retry":
            body["new_parameters"] = given_parameters(given["new"], given["new_parameters"])
        elif verb == "reassign":
            body |= {name: given[name] for name in ("site", "nucleus", "anew")}
        elif verb == "priority":
            body["priority"] = given["value"]
        return [client.act_on_task(verb, given["task"], **body)]

    return RemoteDocuments(ask)


ELSEWHERE: Mapping[str, RemoteDocuments] = {verb: _act_elsewhere(verb) for verb in VERBS}
