"""Submits one refined task: all of it in one transaction, or nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from agents.tasks.input_feeding import feed_tasks
from agents.tasks.input_sources import InputSources, RucioDid
from broker.domain.instants import naive
from broker.formats.statements.sss_exchange import check_standalone
from broker.formats.statements.task_numbers import next_task_id
from broker.pools.statements import pool_registration
from broker.pools.statements.pool_registration import TaskRequirements
from broker.store.connection.database import Database
from broker.store.connection.tables import Names
from broker.tasks.model.client_parameters import check_same_name
from broker.tasks.model.refine import Submitter, refine, several_primaries
from broker.tasks.model.selection import JobCount, Limits, pseudo_files, selected, sequence
from broker.tasks.model.task import PSEUDO_MASTER, InputFile, InputPlan, RefinedTask
from broker.tasks.model.values import BadParameter
from broker.tasks.statements import chains, client_requests
from broker.tasks.statements.client_reads import find_same_name
from broker.tasks.statements.client_requests import ClientRequest
from broker.tasks.statements.contents import FileTerms, add_files
from broker.tasks.statements.known_names import check_name
from broker.tasks.statements.parents import files_to_count, find_parent, find_task_state
from broker.tasks.statements.refined_tasks import DatasetRow, insert_inputs, insert_outputs, insert_task
from broker.tasks.statements.task_rows import InsertedTask
from broker.work.input_files import scope_and_name

SEQUENCE_AT_LEAST = 10_000
"""Rows of a sequence of numbers alongside an input whose files are not known yet."""


@dataclass(frozen=True)
class TaskSubmission:
    """A task to be submitted.

    Attributes:
        task: the refined task.
        sources: where the contents of its input come from.
        request: number of the submission at its client; None without one.
        one_of_its_name: whether the user may have only one task of this name, except those that ended without output.
        files: readers of files that were listed apart from the parameters, by dataset; each call reads them anew.
    """

    task: RefinedTask
    sources: InputSources = field(default_factory=InputSources)
    request: ClientRequest | None = None
    files: Mapping[str, Any] = field(default_factory=dict)
    one_of_its_name: bool = False

    @property
    def columns(self) -> Mapping[str, Any]:
        """The columns of the task's row."""
        return self.task.columns

    def make(self, database: Database, now: datetime) -> InsertedTask:
        """Make the task, or return the one that the same submission made before.

        Raises:
            NotOurTables: alongside PanDA.
            BadParameter: a dataset or the parent does not exist, or there is nothing to do.
            CatalogueUnavailable: Rucio gave no answer.
            SameName: it must be the only one of its name, and another exists.
            RequestReused: another submission has the client's number.
        """
        check_standalone(database)
        with database.begin() as connection:
            return _Maker(connection, database.names, self, now).make()


def task_submission(
    given: Mapping[str, Any],
    submitter: Submitter,
    *,
    sources: InputSources | None = None,
    request: str | None = None,
    files: Mapping[str, Any] | None = None,
) -> TaskSubmission:
    """The submission of task parameters.

    Raises:
        BadParameter: they cannot be used.
    """
    task = refine(given, submitter)
    client_request = None
    if request is not None:
        text = json.dumps([given, submitter.count, submitter.nucleus], sort_keys=True, default=str)
        client_request = ClientRequest(
            str(task.columns["username"]), request, hashlib.sha256(text.encode()).hexdigest()
        )
    return TaskSubmission(task, sources or InputSources(), client_request, files or {})


class _Maker:
    """Makes one task in one transaction."""

    def __init__(self, connection: sa.Connection, names: Names, submission: TaskSubmission, now: datetime) -> None:
        self._connection, self._names, self._submission = connection, names, submission
        self._task = submission.task
        self._aware, self._now = now, naive(now)
        self._notes = list(self._task.notes)
        self._count: JobCount | None = None
        self._jobs = self._master_files = 0

    def make(self) -> InsertedTask:
        request, task = self._submission.request, self._task
        earlier = None if request is None else client_requests.find_task(self._connection, request)
        if earlier is None:
            task_id = next_task_id(self._connection, self._names)
            if request is not None and not client_requests.claim(self._connection, request, task_id, self._aware):
                earlier = client_requests.find_task(self._connection, request)
        if earlier is not None:
            return self._earlier_task(earlier)
        if self._submission.one_of_its_name:
            self._check_name()
        for name in ("gshare", "nucleus", "site"):
            if task.columns.get(name) is not None:
                check_name(self._connection, self._names, name, str(task.columns[name]))
        parent = None
        if task.parent is not None:
            parent = find_parent(self._connection, self._names, task.parent, str(task.columns["username"]))
        planned = [one for plan in task.inputs for one in self._resolved(plan)]
        insert_task(self._connection, self._names, task_id, task, parent, self._now)
        vo = str(task.columns["vo"])
        rows = insert_inputs(
            self._connection, self._names, task_id, vo, [(plan, box) for plan, box, _ in planned], self._now
        )
        insert_outputs(self._connection, self._names, task_id, task, self._now)
        if task.specs is not None:
            required = TaskRequirements(sites=task.specs.sites, specs=task.specs.canonical)
            pool_registration.attach(self._connection, task_id, None, required)
        for row, (_, _, at_rucio) in zip(rows, planned, strict=True):
            self._fill(task_id, row, at_rucio, waits=parent is not None and not task.starts_with_parent)
        feed_tasks(self._connection, self._names, self._submission.sources, self._aware, [task_id])
        chains.start(self._connection, self._names, [task_id], self._now)
        return self._answer(task_id)

    def _check_name(self) -> None:
        user, name = str(self._task.columns["username"]), str(self._task.columns["taskname"])
        same_name = find_same_name(self._connection, self._names, user, name)
        if same_name is not None:
            check_same_name(name, *same_name)

    def _earlier_task(self, task_id: int) -> InsertedTask:
        state = find_task_state(self._connection, self._names, task_id)
        counts: dict[int, JobCount] = {}
        for dataset, file in files_to_count(self._connection, self._names, task_id):
            counts.setdefault(dataset, JobCount(state.split_rule)).add(file)
        jobs = sum(count.jobs for count in counts.values())
        return InsertedTask(task_id, state.name, state.status, (), 0, ("it was submitted before",), job_count=jobs)

    def _answer(self, task_id: int) -> InsertedTask:
        state = find_task_state(self._connection, self._names, task_id)
        self._notes += [f"waits: {reason}" for reason in state.reasons]
        return InsertedTask(task_id, state.name, state.status, (), 0, tuple(self._notes), job_count=self._jobs)

    def _resolved(self, plan: InputPlan) -> list[tuple[InputPlan, str | None, RucioDid | None]]:
        """The datasets of a named input, each with its container and what Rucio knows; None for pseudo input."""
        if plan.pseudo or plan.files is not None or plan.name in self._submission.files:
            return [(plan, None, None)]
        did = scope_and_name(plan.name)
        if chains.find_producer(self._connection, self._names, did) is not None:
            return [(plan, None, None)]
        if self._task.parent is not None and not self._task.starts_with_parent:
            return [(plan, None, None)]
        at_rucio = self._submission.sources.find(did)
        if at_rucio is None or not (at_rucio.is_container and plan.expand):
            return [(plan, None, at_rucio)]
        constituents = self._submission.sources.constituents(did)
        secondary = next((one for one in self._task.inputs if not one.is_master), None)
        if plan.is_master and secondary is not None and len(constituents) > 1:
            raise several_primaries(secondary)
        return [(replace(plan, name=name), plan.name, RucioDid(at_rucio.is_open, False)) for name in constituents]

    def _fill(self, task_id: int, row: DatasetRow, at_rucio: RucioDid | None, waits: bool) -> None:
        plan, task = row.plan, self._task
        listed = self._submission.files.get(plan.name)
        if plan.pseudo:
            self._add(task_id, row, self._pseudo(plan))
        elif plan.files is not None or listed is not None:
            self._add(task_id, row, plan.files if listed is None else listed())
        else:
            did = scope_and_name(plan.name)
            is_own = chains.find_producer(self._connection, self._names, did) is not None
            grows = at_rucio is not None and at_rucio.is_open and (task.until_closed or task.starts_with_parent)
            if at_rucio is not None and not grows and not waits:
                self._add(task_id, row, self._submission.sources.files(did))
            elif is_own or waits or grows or task.waits_for_input:
                source = "task" if is_own else "rucio"
                chains.insert_feed(self._connection, task_id, row, did, source, task, waits, self._aware)
            else:
                remedy = "write SCOPE:NAME as Rucio has it, list its files, or write waitInput: true"
                raise BadParameter(plan.field, plan.name, "there is no such dataset", remedy)

    def _pseudo(self, plan: InputPlan) -> Iterator[InputFile]:
        task = self._task
        if plan.name == PSEUDO_MASTER:
            events = task.most_events
            per_row = int(task.parameters.get("nEventsPerJob") or 1) if events is not None else 1
            return pseudo_files(plan.wanted or 0, events if task.most_files is None else None, per_row)
        rows = plan.wanted or (self._master_files if self._count is not None else 0) or SEQUENCE_AT_LEAST
        return sequence(rows, plan.offset)

    def _add(self, task_id: int, row: DatasetRow, files: Any) -> None:
        plan, task = row.plan, self._task
        limits = Limits()
        if not plan.pseudo:
            most_files = task.most_files if plan.is_master else plan.wanted
            limits = Limits(plan.offset, most_files, task.most_events if plan.is_master else None, task.events_a_file)
        terms = FileTerms(task_id, row.datasetid, "pseudo_input" if plan.pseudo else "input")
        if plan.is_master:
            first = task.event_offset
            terms = FileTerms(task_id, row.datasetid, terms.type, task.max_attempt, task.max_failure, first)
        chosen = selected(files, plan, limits)
        added = add_files(self._connection, self._names, terms, self._counted(plan, chosen), self._now, state="closed")
        if not added.files:
            remedy = "look at the dataset, and at include, exclude, offset and nFiles"
            raise BadParameter(plan.field, plan.name, "no file of it is left for the task", remedy)
        if plan.is_master and self._count is not None:
            self._jobs += self._count.jobs
            self._master_files += added.files

    def _counted(self, plan: InputPlan, files: Iterator[InputFile]) -> Iterator[InputFile]:
        """The files; those of the primary input are counted into jobs on the way."""
        if not plan.is_master:
            yield from files
            return
        self._count = JobCount(str(self._task.columns["splitrule"]))
        for file in files:
            self._count.add(file)
            yield file
