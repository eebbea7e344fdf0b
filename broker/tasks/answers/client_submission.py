"""Submits the task that ``prun`` of panda-client describes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from broker.store.connection.database import Database
from broker.tasks.answers.sandboxes import use_sandboxes
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.catalogue import ONE_OF_ITS_NAME
from broker.tasks.model.client_parameters import ClientTask, adapted
from broker.tasks.model.refine import Submitter
from broker.tasks.model.sandboxes import named_in
from broker.tasks.statements.task_rows import InsertedTask

LABEL = "user"


def submit_client_task(database: Database, task: ClientTask, now: datetime) -> InsertedTask:
    """Make the task.

    Raises:
        BadParameter: a parameter cannot be used, or is refused by its name.
        NotFound: the archive of the program is not there.
        SameName: the user has a task of that name, and the parameters ask for one only.
        NotOurTables: alongside PanDA.
    """
    vo = database.names.vo
    ready = adapted(task, vo)
    submission = task_submission(ready.parameters, Submitter(task.user, vo, LABEL, may_ask_for_one_name=True))
    if ready.parameters.get(ONE_OF_ITS_NAME):
        submission = replace(submission, one_of_its_name=True)
    use_sandboxes(database, task.user, named_in(submission.task.template), now)
    submitted = submission.make(database, now)
    return replace(submitted, notes=(*ready.notes, *submitted.notes))
