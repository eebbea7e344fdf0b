"""The steps of the analysis brokerage that are not rules, each replaceable by a profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.engine.analysis.queue_attributes import VpScope
from broker.engine.job.placement import Placement
from broker.engine.job.steps import JobSteps
from broker.engine.shared.filter_cache import Evaluation
from broker.rules.contract import Options, Rule, Step
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.active_user_jobs import ACTIVE_USER_JOBS
from broker.snapshot.sources.recent_starts import RECENT_STARTS
from broker.snapshot.sources.task_queues import TASK_QUEUES


class QueueListOptions(Options):
    """The queues that a task includes, excludes or names.

    Attributes:
        asked: when candidates are made, so that other queues count nowhere; or by the rule ``excluded``, after the
            input was looked for at all queues of analysis. A unified queue that is named and runs no analysis then has
            no pseudo-queues.
        star: ``*`` in a list stands for any characters of a whole name, or the item is searched for anywhere in it as a
            regular expression.
    """

    asked: Literal["first", "by_rule"] = "first"
    star: Literal["whole_name", "anywhere"] = "whole_name"


class QueueListReading(Step):
    """How the lists of included and excluded queues of a task are read; ``wishes`` in profiles."""

    name = "wishes"
    title = "When and how the lists of included and excluded queues are read"
    options: QueueListOptions = QueueListOptions()


class PassesOptions(Options):
    """The passes with and without the locality check.

    Attributes:
        suppressed: of a task for which the check is suppressed, it is not made, or only dropped in the second pass.
        problems: queues with problems of the user are enough to end after the first pass, or not where the check is
            suppressed.
        copies: jobs that run at several queues wait until this many are left, or until this many were found, of which
            some may be skipped for now.
    """

    suppressed: Literal["not_checked", "second_pass"] = "not_checked"
    problems: Literal["count", "count_unless_suppressed"] = "count"
    copies: Literal["left", "found"] = "left"


class Passes(Step):
    """The passes with and without the locality check of the input."""

    name = "passes"
    title = "For which chunks the input must be local, and when that is dropped"
    options: PassesOptions = PassesOptions()

    def checked(self, real: Bools, suppressed: Bools, remote_source: Bools) -> Bools:
        """(T,): whether the first pass makes the check."""
        if self.options.suppressed == "second_pass":
            return real
        return np.asarray(real & ~(suppressed & remote_source))

    @property
    def counts_problems(self) -> bool:
        """Whether queues with problems always end the passes."""
        return self.options.problems == "count"

    def only_enough(self, evaluation: Evaluation, alive: Bools, wanted: Ints) -> Evaluation:
        """The evaluation, with no candidate for chunks that have fewer queues than copies of each job.

        Args:
            evaluation: of the last pass, (T, Q).
            alive: (T, Q) the queues that no rule rejected for good.
            wanted: (T,) at how many queues each job of the chunk is to run.
        """
        counted = evaluation.feasible if self.options.copies == "left" else alive
        too_few = counted.sum(axis=1) < wanted
        if not (evaluation.feasible.any(axis=1) & too_few).any():
            return evaluation
        return dataclasses.replace(evaluation, feasible=evaluation.feasible & ~too_few[:, None])


class BasicWeightOptions(Options):
    """The basic weight.

    Attributes:
        choice: by NEW_BASIC_WEIGHT, or always the new one.
        jobs: of the new weight, by the table of classes; or spread over the classes by the room that is left in each,
            the rest spilling over into the class below.
        over: the candidates that compete for the room: those that are left, or also those that are skipped for now.
    """

    choice: Literal["by_key", "new"] = "by_key"
    jobs: Literal["by_table", "by_room_of_class"] = "by_table"
    over: Literal["left", "skipped_too"] = "left"


class BasicWeight(Step):
    """The basic weight in use, and how the new one is computed."""

    name = "basic_weight"
    title = "Which basic weight is used, and how the new one shares jobs out over classes"
    options: BasicWeightOptions = BasicWeightOptions()

    def is_new(self, by_key: bool) -> bool:
        """Whether the new basic weight is used."""
        return by_key or self.options.choice == "new"

    @property
    def by_room(self) -> bool:
        """Whether jobs are spread over the classes by their room."""
        return self.options.jobs == "by_room_of_class"


class CandidateNumberOptions(Options):
    """How many candidates remain.

    Attributes:
        distributed: chunks with distributed input keep the ten best, or all.
        cloned: of jobs that run at several queues, as many as copies where that is more than ten; or as many as queues
            that have the input, and at least as many as copies.
        used: queues at which the task has output already go by weight, or before all others.
        without_files: queues that lack files of the input leave their place to others, or take it.
    """

    distributed: Literal["ten", "all"] = "ten"
    cloned: Literal["at_least_ten", "with_input"] = "at_least_ten"
    used: Literal["by_weight", "first"] = "by_weight"
    without_files: Literal["make_room", "take_a_place"] = "make_room"


class CandidateNumber(Step):
    """How many of the heaviest candidates remain."""

    name = "candidate_number"
    title = "How many of the heaviest candidates remain"
    options: CandidateNumberOptions = CandidateNumberOptions()

    def needed_sources(self) -> tuple[str, ...]:
        """The queues at which tasks have output, where they go first."""
        return (TASK_QUEUES,) if self.options.used == "first" else ()

    def used_queues(self, tasks: Ints, snapshot: Snapshot) -> Bools | None:
        """(T, Q): the queues that go first; None where all go by weight."""
        used = snapshot.offered.get(TASK_QUEUES)
        if self.options.used == "by_weight" or used is None:
            return None
        names = snapshot.unified.name[snapshot.queues.unified].astype(np.str_)
        nothing: frozenset[str] = frozenset()
        return np.array([np.isin(names, sorted(used.get(int(task), nothing))) for task in tasks], dtype=np.bool_)

    def taking(self, reason: Ints, filters: Sequence[Rule]) -> Bools | None:
        """(T, Q): queues that take a place among the best although they lack files; None where they make room.

        Args:
            reason: (T, Q) the number of the rule that rejected each.
            filters: the rules by that number.
        """
        lacking = [number for number, rule in enumerate(filters) if rule.lacks_files]
        if self.options.without_files == "make_room" or not lacking:
            return None
        return np.isin(reason, lacking)

    def best(self, ten: Ints, copies: Ints, distributed: Bools, with_input: Ints, every: int) -> Ints:
        """(T,): the most candidates that each chunk keeps."""
        number = np.maximum(ten, copies)
        if self.options.cloned == "with_input":
            number = np.where(copies > 1, np.maximum(with_input, copies), ten)
        if self.options.distributed == "all":
            number = np.where(distributed, max(every, 1), number)
        return np.asarray(number, dtype=np.int64)


class UserFiguresOptions(Options):
    """The figures of the stabilizer.

    Attributes:
        jobs: defined and active ones, or only those in the table of active jobs.
        users: those with jobs, or all of them together count as one more.
        absent: a user without jobs at a queue has none, or is not considered there, neither for queued nor for bad
            jobs.
        starts: jobs that started in the last 6 hours, archived ones too; or those of the tables of jobs that are not
            archived, until 5 minutes ago, both ends at whole 10 minutes.
    """

    jobs: Literal["defined_too", "active"] = "defined_too"
    users: Literal["people", "and_total"] = "people"
    absent: Literal["no_jobs", "not_looked_at"] = "no_jobs"
    starts: Literal["six_hours", "until_five_minutes_ago"] = "six_hours"


class UserFigures(Step):
    """Which jobs and users the stabilizer counts."""

    name = "user_figures"
    title = "Which jobs and users the stabilizer counts"
    options: UserFiguresOptions = UserFiguresOptions()

    def needed_sources(self) -> tuple[str, ...]:
        """Counts of active jobs by user and of recent starts, where they are needed."""
        users = (ACTIVE_USER_JOBS,) if self.options.jobs == "active" else ()
        return users + ((RECENT_STARTS,) if self.options.starts == "until_five_minutes_ago" else ())


class ThrottlesOptions(Options):
    """The throttle stage.

    Attributes:
        share_usage: the usage of the share, the L1 share's as well with USE_L1_SHARE_USAGE; or the smaller always.
        quota: any line over the limit counts before one near it, or the first line of either kind.
        panda_label: the caps and the evaluation of tasks of label ``panda`` are those of their user, or of nobody.
    """

    share_usage: Literal["by_key", "smaller"] = "by_key"
    quota: Literal["over_first", "in_order"] = "over_first"
    panda_label: Literal["of_user", "of_nobody"] = "of_user"


class Throttles(Step):
    """The throttles that hold back a whole chunk."""

    name = "throttles"
    title = "Which usage of shares and which lines of quotas throttle"
    options: ThrottlesOptions = ThrottlesOptions()


class LocalityOptions(Options):
    """Where the input counts as being.

    Attributes:
        named: for a task that names its queue, it must be in the best list of queues; or any part there is enough.
        distributed: virtual placement is no place for distributed datasets, or for no dataset of such a chunk.
        twice: a queue with a complete and an incomplete replica that both count has the dataset once, or twice.
        vp_scope: a queue reads from virtual placement by its relations of the scope in use (analysis where the queue
            defines it), or by those of the default scope alone.
        containers: they are distributed by their rules; or always, where an endpoint has a container if it has a
            constituent as a whole, and a virtual placement of one is a copy of one file.
    """

    named: Literal["best_list", "any_part"] = "best_list"
    distributed: Literal["dataset", "chunk"] = "dataset"
    twice: bool = False
    vp_scope: VpScope = "in_use"
    containers: Literal["by_rules", "always_distributed"] = "by_rules"


class Locality(Step):
    """Where the input counts as being."""

    name = "locality"
    title = "Where the input counts as being"
    options: LocalityOptions = LocalityOptions()


class OneByOneOptions(Options):
    """Users' chunks are assigned in order, since their throttles and loads count earlier chunks.

    Attributes:
        by: ``weight``: chunk after chunk, drawn by weight.
    """

    by: Literal["weight"] = "weight"


class OneByOne(Placement):
    """Which queue gets how many jobs of each chunk of users."""

    # its throttles and loads are only right chunk after chunk
    named_by = ""
    options: Options = OneByOneOptions()


@dataclass(frozen=True)
class AnalysisSteps(JobSteps):
    """The steps of the analysis brokerage, with those that it shares with production."""

    wishes: QueueListReading = field(default_factory=QueueListReading)
    throttles: Throttles = field(default_factory=Throttles)
    locality: Locality = field(default_factory=Locality)
    passes: Passes = field(default_factory=Passes)
    user_figures: UserFigures = field(default_factory=UserFigures)
    basic_weight: BasicWeight = field(default_factory=BasicWeight)
    placement: Placement = field(default_factory=OneByOne)
    candidate_number: CandidateNumber = field(default_factory=CandidateNumber)
