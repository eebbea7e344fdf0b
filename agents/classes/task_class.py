"""The agent that evaluates users by their slots at queues of each class, and classifies their tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa

from agents.classes.classification import ClassificationAgent, Evaluation
from agents.service.base import CycleContext
from broker.classes.task_classes import (
    MEASURED_SHARES,
    ClassTerms,
    KnownSite,
    TaskEvaluation,
    UserEvaluation,
    class_by_user,
    evaluate_task,
    evaluate_users,
    may_be_helped,
    user_row,
)
from broker.domain.classification import TASK_CLASS_NAMES, known_or_none
from broker.snapshot.build_classes import known_sites
from broker.store.classes import class_rows
from broker.store.classes.class_inputs import count_jobs, read_site_rows, read_tasks, read_user_jobs
from broker.store.connection.tables import TableCatalogue
from broker.store.gdpconfig_rows import TuningStore

#: How long the class of a queue is valid for the evaluation of users.
SITE_CLASS_VALID_S = 7200.0


class TaskClassAgent(ClassificationAgent):
    """Writes ``analy_user_eval`` of all users, and ``analy_task_eval`` of each task that is under way."""

    name = "task_class"
    title = "classes of users' tasks: S, A, B and C"

    def evaluate(self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext) -> Evaluation:
        """Evaluate what users have now, and how far their tasks are."""
        evaluation = Evaluation()
        published = TuningStore(context.database.names).read_current(connection, live=True)
        evaluation.tuning = published.version
        terms = ClassTerms.of(published.tuning(None))
        users = self._users(connection, catalogue, context, terms, evaluation)
        tasks = read_tasks(connection, catalogue, context.now, context.request.task_ids)
        context.check()
        near = [task.jeditaskid for task in tasks if may_be_helped(task, class_by_user(task, users), terms)]
        jobs = count_jobs(connection, catalogue, near)
        evaluated = [evaluate_task(task, users, jobs, terms) for task in tasks]
        classes = [one for one in evaluated if one is not None]
        evaluation.tasks = tuple(one.row() for one in classes)
        evaluation.output = [_report_user(user) for user in users.values()] + [
            _report_task(one, jobs) for one in classes
        ]
        by_class = Counter(one.task_class for one in classes)
        evaluation.counts = {"users": len(users), "tasks": len(tasks), "not_evaluated": len(tasks) - len(classes)}
        evaluation.counts |= {name: by_class[number] for number, name in TASK_CLASS_NAMES.items()}
        return evaluation

    def _users(
        self,
        connection: sa.Connection,
        catalogue: TableCatalogue,
        context: CycleContext,
        terms: ClassTerms,
        evaluation: Evaluation,
    ) -> dict[str, UserEvaluation]:
        """The evaluated users; none, and nothing to write, while no class of a queue is fresh."""
        rows = read_site_rows(connection, catalogue)
        known = known_sites(rows, context.now.timestamp(), SITE_CLASS_VALID_S, evaluation.dropped_rows)
        if not known:
            evaluation.notes.append(
                "no class of a queue is fresh (see the agent site_class): users are not evaluated, and of tasks only "
                "those of Express Analysis"
            )
            return {}
        sites = {queue: KnownSite(*about) for queue, about in known.items()}
        users = evaluate_users(read_user_jobs(connection, catalogue, MEASURED_SHARES), sites, terms)
        evaluation.metrics = (user_row(users),)
        context.check()
        return users

    def tidy(self, connection: sa.Connection, context: CycleContext, evaluation: Evaluation) -> None:
        """Remove evaluations of tasks that ended a while ago."""
        evaluation.counts["forgotten"] = class_rows.forget_ended_tasks(connection, context.database.names, context.now)


def _report_user(user: UserEvaluation) -> dict[str, Any]:
    return user.document


def _report_task(evaluation: TaskEvaluation, jobs: dict[int, int]) -> dict[str, Any]:
    task = evaluation.task
    return {
        "jeditaskid": task.jeditaskid,
        "class": TASK_CLASS_NAMES[evaluation.task_class],
        "user": task.user,
        "gshare": task.share,
        "n_files_total": task.files,
        "n_files_finished": task.finished,
        "n_files_failed": task.failed,
        "pct_finished": known_or_none(task.percent_finished),
        "jobs": jobs.get(task.jeditaskid),
    }
