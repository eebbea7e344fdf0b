"""What somebody wants to submit, as text: JDL, CFG, an SSS Job Object, or PanDA's task parameters."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from broker.errors import WRONG_USAGE, BrokerError
from broker.formats.model.sss.job_columns import MappingRules
from broker.formats.model.sss.reading import read_document
from broker.formats.model.sss.submission import CannotSubmitError, plan
from broker.formats.model.sss.xml_reading import BadDocumentError
from broker.pools.answers.pool_files import shipped_declarations
from broker.pools.statements import resource_versions
from broker.store.connection.database import Database
from broker.tasks.answers.submit import Grid, NotSubmitted, SubmitOptions, plan_description
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.refine import Submitter
from broker.tasks.statements import task_rows
from broker.tasks.statements.task_rows import AnySubmission, Submission, Submitted

Kind = Literal["jdl", "cfg", "sss", "task"]


class RefusedText(BrokerError):
    """A text that is not understood."""

    exit_status = WRONG_USAGE


def planned(kind: Kind, text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
    """The tasks that a text asks for.

    Args:
        kind: of the text.
        text: as it came.
        options: of the submission.
        grid: what submitting looks at.

    Raises:
        BrokerError: it is not understood, or may not be submitted.
    """
    return _PLANNERS[kind](text, options, grid)


def submit_all(database: Database, submissions: Sequence[AnySubmission], now: datetime) -> tuple[Submitted, ...]:
    """Make the tasks of one text: all of them in one transaction, or none."""
    described = [one for one in submissions if isinstance(one, Submission)]
    if len(described) == len(submissions):
        return task_rows.submit(database, described, now)
    return tuple(one.make(database, now) for one in submissions)  # task parameters are one task


def known_grid(database: Database) -> Grid:
    """What submitting looks at."""
    with database.begin() as connection:
        queues = task_rows.known_queues(connection, database.names)
        version = resource_versions.current(connection)
    declared = None if version is None else version.said.declarations
    return Grid(queues, declared or shipped_declarations(), None if version is None else version.said.resources)


def _described(suffix: str) -> Callable[[str, SubmitOptions, Grid], tuple[AnySubmission, ...]]:
    """The planner of descriptions, which reads files: the end of the name gives the kind."""

    def plan_text(text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
        with tempfile.TemporaryDirectory(prefix="gridbroker-") as folder:
            file = Path(folder) / f"description{suffix}"
            file.write_text(text, encoding="utf-8", errors="surrogatepass")
            try:
                return plan_description(file, options, grid)
            except BrokerError as error:
                error.where = error.where.replace(str(file), "the text")
                raise

    return plan_text


def _plan_sss(text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
    rules = options.sss_rules(MappingRules(_pairs(options.share), _pairs(options.queue_name)), grid.queues)
    try:
        document = read_document(text.encode("utf-8", "surrogatepass"))
        return tuple(Submission(one) for one in plan(document, rules))
    except BadDocumentError as error:
        raise RefusedText(str(error), "the SSS document", "correct it") from error
    except CannotSubmitError as error:
        raise NotSubmitted(str(error), "the SSS document", "nothing was submitted; change it") from error


def _plan_task(text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
    try:
        given: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedText("the task parameters are no JSON", "the text", "send a JSON object") from error
    if not isinstance(given, Mapping):
        raise RefusedText("the task parameters are no JSON object", "the text", "send a JSON object")
    return (task_submission(given, Submitter(options.user, options.vo, options.label, options.nucleus)),)


def _pairs(words: list[str] | None) -> dict[str, str]:
    found = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise RefusedText(f"not usable: {word[:80]}", "names of shares and queues", "write NAME=VALUE")
        found[name] = value
    return found


_PLANNERS: Mapping[Kind, Callable[[str, SubmitOptions, Grid], tuple[AnySubmission, ...]]] = {
    "jdl": _described(".jdl"),
    "cfg": _described(".cfg"),
    "sss": _plan_sss,
    "task": _plan_task,
}
