"""The agent that registers in Rucio what jobs have written."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, field_validator

from agents.feeds.rucio_connection import RucioOptions
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.service.configuration import ProcessSettings
from agents.tasks.output_registering import OutputRegistering, Terms
from agents.tasks.rucio_writing import RucioWritingClient
from broker.domain.instants import naive
from broker.feeds.model.rucio.writing import RucioWriter, Rule
from broker.store.schema import migrate
from broker.tasks.model.output_registration import PLACEHOLDERS, filled, unknown_placeholders
from broker.tasks.statements import rucio_outputs
from broker.tasks.statements.rucio_outputs import NewDataset, PlannedDataset, Work

_DAY_S = 86_400
Type = Literal["output", "log"]


class RuleTemplate(AgentOptions):
    """The replication rule of a dataset, created with it.

    Attributes:
        type: for datasets of this type; None: all. Likewise ``label`` and ``vo``.
        label: prodSourceLabel of the task.
        vo: of the task.
        rse_expression: where the files are to be; with placeholders.
        copies: of each file.
        lifetime_days: after which the rule expires; None: never.
        account: that the rule belongs to; with placeholders; None: that of ``rucio.cfg``.
    """

    type: Type | None = None
    label: str | None = None
    vo: str | None = None
    rse_expression: str = "{destination}"
    copies: int = Field(default=1, ge=1)
    lifetime_days: Annotated[float, Field(gt=0)] | None = None
    account: str | None = None

    @field_validator("rse_expression", "account")
    @classmethod
    def _known(cls, text: str | None) -> str | None:
        unknown = unknown_placeholders(text or "")
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise ValueError(f"there is no placeholder {{{unknown[0]}}}; known are {known}")
        return text

    def fits(self, work: Work) -> bool:
        """Whether the rule is for a dataset."""
        conditions = ((self.type, work.type), (self.label, work.facts.get("label")), (self.vo, work.facts.get("vo")))
        return all(value is None or value == actual for value, actual in conditions)


class RucioOutputOptions(RucioOptions):
    """Options of the agent.

    Attributes:
        types: of datasets that are registered: output, log.
        rules: the first that fits a dataset is created with it; if none fits, the dataset has no rule.
        files_of_a_batch: files of one call; Rucio takes 1,000.
        files_of_a_cycle: files of one cycle.
        datasets_of_a_cycle: datasets worked on in one cycle, those that wait longest first.
        first_pause_s: pause after a failure, doubled with each further one ...
        longest_pause_s: ... up to this.
        ended_within_days: tasks that ended earlier are ignored when the agent is switched on.
    """

    time_limit_s: float = Field(default=120.0, gt=0, le=600)
    types: tuple[Type, ...] = ("output", "log")
    rules: tuple[RuleTemplate, ...] = (RuleTemplate(),)
    files_of_a_batch: int = Field(default=500, ge=1, le=500)
    files_of_a_cycle: int = Field(default=10_000, ge=1)
    datasets_of_a_cycle: int = Field(default=1_000, ge=1)
    first_pause_s: float = Field(default=60.0, gt=0)
    longest_pause_s: float = Field(default=900.0, gt=0)
    ended_within_days: float = Field(default=1.0, ge=0, le=36_500)


def connect(options: RucioOptions) -> RucioWriter:
    """Rucio as ``rucio.cfg`` names it.

    Raises:
        BrokerError: the package ``rucio-clients`` is not installed.
    """
    if options.rucio_config is not None:
        os.environ["RUCIO_CONFIG"] = str(options.rucio_config)
    return RucioWritingClient(options.time_limit_s)


class RucioOutputAgent(Agent[RucioOutputOptions]):
    """Registers outputs of finished jobs where the broker makes the jobs itself; alongside PanDA it does nothing."""

    name = "rucio_output"
    title = "outputs of jobs into Rucio: datasets with their rules, files, and the close"
    options_type = RucioOutputOptions
    is_feed = True

    def __init__(
        self,
        options: RucioOutputOptions,
        process: ProcessSettings,
        connect: Callable[[RucioOptions], RucioWriter] = connect,
    ) -> None:
        """``connect``: opens the connection to Rucio, once there is something to register."""
        super().__init__(options, process)
        self._connect = connect

    def cycle(self, context: CycleContext) -> CycleReport:
        """Take on datasets, and process those that are due.

        Raises:
            BrokerError: Rucio's client is not installed.
        """
        installation = migrate.check(context.database)
        if installation != migrate.STANDALONE or not self.process.makes_jobs(installation):
            return CycleReport(notes=("PanDA registers the output of its jobs itself",))
        counts = {"taken_on": self._take_on(context)}
        names, most = context.database.names, self.options.datasets_of_a_cycle
        with context.database.read_snapshot() as connection:
            request = context.request
            works = rucio_outputs.read_work(
                connection, names, context.now, most, request.task_ids, at_once=request.by_hand
            )
        counts["due"] = len(works)
        if not (works and context.writes):
            return CycleReport(counts)
        options = self.options
        limits = (options.files_of_a_batch, options.files_of_a_cycle, options.first_pause_s, options.longest_pause_s)
        registering = OutputRegistering(context, self._connect(options), Terms(*limits), self._rule)
        registering.run(works)
        return CycleReport(counts | registering.counts, notes=tuple(registering.notes))

    def _take_on(self, context: CycleContext) -> int:
        """Take on new datasets of tasks, and plan those of sites; returns how many are new."""
        names = context.database.names
        since = naive(context.now) - timedelta(days=self.options.ended_within_days)
        with context.transaction() as connection:
            datasets = rucio_outputs.new_datasets(
                connection,
                names,
                self.options.types,
                since,
                self.options.datasets_of_a_cycle,
                context.request.task_ids,
            )
            if context.writes:
                rucio_outputs.take_on(connection, names, [planned(dataset) for dataset in datasets], context.now)
                rucio_outputs.plan_sites(connection, names, context.now)
        return len(datasets)

    def _rule(self, work: Work, rse: str) -> Rule | None:
        template = next((rule for rule in self.options.rules if rule.fits(work)), None)
        if template is None:
            return None
        values = {"destination": work.destination or rse, "rse": rse, "site": work.key[2], **work.facts}
        days, account = template.lifetime_days, template.account
        return Rule(
            filled(template.rse_expression, values),
            template.copies,
            None if days is None else round(days * _DAY_S),
            None if account is None else filled(account, values),
        )


def planned(dataset: NewDataset) -> PlannedDataset:
    """The names of a dataset at Rucio; one that is its own container holds datasets there, one for each site.

    >>> planned(NewDataset(1, 2, "user.me.t1", "user.me.t1/", "user.me")).container
    ('user.me', 'user.me.t1')
    """
    did = _did(dataset.datasetname, dataset.scope)
    by_site = dataset.datasetname.endswith("/") or dataset.containername == f"{dataset.datasetname}/"
    named = dataset.datasetname if by_site else dataset.containername
    container = _did(named, dataset.scope) if named else None
    return PlannedDataset(dataset.jeditaskid, dataset.datasetid, did, container, by_site)


def _did(name: str, scope: str) -> tuple[str, str]:
    before, colon, after = name.rstrip("/").partition(":")
    return (before, after) if colon else (scope, before)
