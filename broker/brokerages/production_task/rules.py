"""The production task brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Production Task Brokerage; Special Brokerage for ATLAS Full-chain. The order is PanDA's. A nucleus that a
rule rejects is gone, so the order decides the code that is shown, and which nuclei are left when the check of data
locality asks whether any has enough.
"""

from __future__ import annotations

from broker.engine.shared.chain import NucleusChain, QueueChain
from broker.engine.shared.evaluate import AnyFilter
from broker.rules.contract import Filter, GroupFilter, NucleusLoadWeight, TaskPairs, Weight
from broker.rules.production_task.filters.destination_blacklist import DestinationBlacklist
from broker.rules.production_task.filters.full_chain import FullChain
from broker.rules.production_task.filters.innum import Innum
from broker.rules.production_task.filters.insize import Insize
from broker.rules.production_task.filters.job import Job
from broker.rules.production_task.filters.match import Match
from broker.rules.production_task.filters.source_blacklist import SourceBlacklist
from broker.rules.production_task.filters.space import Space
from broker.rules.production_task.filters.status import Status
from broker.rules.production_task.filters.transfer_backlog import TransferBacklog
from broker.rules.production_task.weights.free_fraction import FreeFraction
from broker.rules.production_task.weights.free_space import FreeSpace
from broker.rules.production_task.weights.locality import Locality
from broker.rules.production_task.weights.remaining_work import RemainingWork
from broker.rules.production_task.weights.tape import Tape

NAME = "production_task"

FILTERS: tuple[Filter[TaskPairs] | GroupFilter[TaskPairs], ...] = (
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

WEIGHTS: tuple[Weight[TaskPairs], ...] = (Locality(), Tape(), FreeFraction(), FreeSpace())
LOAD_WEIGHTS: tuple[NucleusLoadWeight, ...] = (RemainingWork(),)

#: Rules of the job brokerage that are not asked whether a nucleus could run the jobs: they depend on the nucleus of the
#: task, on single files, or on the links to the nucleus, or come when queues are weighed. Source: PanDA production
#: brokerage, job check.
NOT_ASKED = ("full_chain", "not_full_chain", "io", "non_local", "low_network_weight", "resource_type_known")


def chain() -> NucleusChain:
    """The rules of the production task brokerage as shipped."""
    return NucleusChain(NAME, FILTERS, WEIGHTS, LOAD_WEIGHTS)


def asked_filters(jobs: QueueChain) -> tuple[AnyFilter, ...]:
    """The filters of the job brokerage by which the queues of a nucleus are judged."""
    return tuple(rule for rule in jobs.filters if rule.name not in NOT_ASKED)
