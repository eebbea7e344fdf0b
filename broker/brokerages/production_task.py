"""The production task brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Production Task Brokerage; Special Brokerage for ATLAS Full-chain. The order is PanDA's. A nucleus that a
rule rejects is gone, so the order decides the code that is shown, and which nuclei are left when the check of data
locality asks whether any has enough.
"""

from __future__ import annotations

from broker.brokerages.task_outputs import output_endpoints
from broker.domain.task_work import TaskWork
from broker.engine.chain import Chain, NucleusChain
from broker.engine.evaluate import AnyFilter
from broker.engine.task_cycle import TaskCycle
from broker.gdpconfig import Tuning
from broker.rules.contract import NucleusFilter, NucleusGroupFilter, NucleusLoadWeight, NucleusWeight
from broker.rules.nucleus.destination_blacklist import DestinationBlacklist
from broker.rules.nucleus.free_fraction import FreeFraction
from broker.rules.nucleus.free_space import FreeSpace
from broker.rules.nucleus.full_chain import FullChain
from broker.rules.nucleus.innum import Innum
from broker.rules.nucleus.insize import Insize
from broker.rules.nucleus.job import Job
from broker.rules.nucleus.locality import Locality
from broker.rules.nucleus.match import Match
from broker.rules.nucleus.remaining_work import RemainingWork
from broker.rules.nucleus.source_blacklist import SourceBlacklist
from broker.rules.nucleus.space import Space
from broker.rules.nucleus.status import Status
from broker.rules.nucleus.tape import Tape
from broker.rules.nucleus.transfer_backlog import TransferBacklog
from broker.snapshot.snapshot import Snapshot

NAME = "production_task"

FILTERS: tuple[NucleusFilter | NucleusGroupFilter, ...] = (
    # what closes a nucleus for everybody
    Status(),
    TransferBacklog(),
    # its storages: there must be one before anything can be asked of it; room comes last, as it changes most
    Match(),
    SourceBlacklist(),
    DestinationBlacklist(),
    Space(),
    # what its queues can run
    Job(),
    # input: these compare the nuclei that are left
    Insize(),
    Innum(),
    # the chain of the task, which so never makes up for missing data
    FullChain(),
)

WEIGHTS: tuple[NucleusWeight, ...] = (Locality(), Tape(), FreeFraction(), FreeSpace())
LOAD_WEIGHTS: tuple[NucleusLoadWeight, ...] = (RemainingWork(),)

#: Rules of the job brokerage that are not asked whether a nucleus could run the jobs: they depend on the nucleus of the
#: task, on single files, or on the links to the nucleus. Source: PanDA production brokerage, job check.
NOT_ASKED = ("full_chain", "not_full_chain", "io", "non_local", "low_network_weight")


def chain() -> NucleusChain:
    """The rules of the production task brokerage as shipped."""
    return NucleusChain(NAME, FILTERS, WEIGHTS, LOAD_WEIGHTS)


def asked_filters(jobs: Chain) -> tuple[AnyFilter, ...]:
    """The filters of the job brokerage by which the queues of a nucleus are judged."""
    return tuple(rule for rule in jobs.filters if rule.name not in NOT_ASKED)


def task_cycle(
    snapshot: Snapshot,
    work: TaskWork,
    tuning: Tuning,
    nuclei: NucleusChain,
    jobs: Chain,
    *,
    independent: bool = False,
    with_codes: bool = False,
) -> TaskCycle:
    """A cycle over the tasks of one VO.

    Args:
        snapshot: the grid.
        work: the tasks.
        tuning: for their VO.
        nuclei: the rules of this brokerage.
        jobs: those of the job brokerage.
        independent: every task meets the same grid.
        with_codes: count what rejected the queues of each nucleus, for an explanation.
    """
    return TaskCycle(
        snapshot,
        work,
        tuning,
        nuclei,
        output_endpoints(work.outputs, snapshot),
        asked_filters(jobs),
        independent=independent,
        with_codes=with_codes,
    )
