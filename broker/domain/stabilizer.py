"""Analysis Stabilizer: the number of jobs a user may have queued at a queue, with all figures behind it.

Source: ATLAS Analysis Job Brokerage, Analysis Stabilizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Value

QUEUE_LENGTH = "BASE_QUEUE_LENGTH_PER_PQ"
WAIT_HOURS = "BASE_EXPECTED_WAIT_HOUR_ON_PQ"
USER_LENGTH = "BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER"
QUEUE_RATIO = "BASE_QUEUE_RATIO_ON_PQ"
RUNNING_RATIO = "STATIC_MAX_QUEUE_RUNNING_RATIO"
MAX_WAIT_HOURS = "MAX_EXPECTED_WAIT_HOUR"
KEYS = (QUEUE_LENGTH, WAIT_HOURS, USER_LENGTH, QUEUE_RATIO, RUNNING_RATIO, MAX_WAIT_HOURS)


@dataclass(frozen=True)
class StabilizerLoad:
    """Jobs of the share at the queue, of all users and of one; arrays that broadcast against each other."""

    queued: Floats
    running: Floats
    to_running_rate: Floats  # jobs an hour
    user_queued: Floats
    user_running: Floats
    users: Floats


@dataclass(frozen=True)
class Stabilized:
    """The figures of the stabilizer, all of the shape of the load."""

    can_be_throttled: Bools
    nq_max: Floats
    percentage: Floats  # of nq_max that is for the user, as a fraction
    max_q_len: Floats


def load_of(known: AnalysisFacts) -> StabilizerLoad:
    """The load figures that the stabilizer reads."""
    queued = known.defined + known.assigned + known.activated + known.starting
    return StabilizerLoad(
        queued, known.users_running, known.to_running_rate, known.user_queued, known.user_running, known.users
    )


def stabilize(load: StabilizerLoad, number_of: Callable[[str], float]) -> Stabilized:
    """Whether the queue can be throttled, and the longest queue of the user.

    ``number_of`` gives the value of each of KEYS. A queue without running jobs gives the user the part of one among
    its users; one without users that of a first.
    """
    length = number_of(QUEUE_LENGTH)
    enough = (load.queued >= length) & (load.queued >= number_of(WAIT_HOURS) * load.to_running_rate)
    nq_max = np.maximum(
        np.maximum(length, number_of(RUNNING_RATIO) * load.running),
        number_of(MAX_WAIT_HOURS) * load.to_running_rate,
    )
    of_running = np.divide(
        load.user_running, load.running, out=np.zeros(np.shape(load.running)), where=load.running > 0
    )
    percentage = np.maximum(of_running, 1.0 / np.maximum(load.users, 1.0))
    max_q_len = np.maximum(
        np.maximum(number_of(USER_LENGTH), number_of(QUEUE_RATIO) * load.running), nq_max * percentage
    )
    return Stabilized(np.asarray(enough), np.asarray(nq_max), np.asarray(percentage), np.asarray(max_q_len))


#: The figures by the names of the specification, in the order in which they are shown.
FIGURES = (
    "nQ", "nR", "trr", "nQ_user", "nR_user", "nUsers", "can_be_throttled", "nQ_max", "percentage", "max_q_len"
)  # fmt: skip


def stats_of_all(load: StabilizerLoad, found: Stabilized) -> dict[str, Floats]:
    """Every figure under the names of the specification, of the shape of the load."""
    return {
        "nQ": load.queued,
        "nR": load.running,
        "trr": load.to_running_rate,
        "nQ_user": load.user_queued,
        "nR_user": load.user_running,
        "nUsers": load.users,
        "can_be_throttled": found.can_be_throttled.astype(np.float64),
        "nQ_max": found.nq_max,
        "percentage": found.percentage,
        "max_q_len": found.max_q_len,
    }


def stats(load: StabilizerLoad, found: Stabilized) -> dict[str, Value]:
    """:func:`stats_of_all` for one chunk and one candidate."""
    seen: dict[str, Value] = {name: float(values.item()) for name, values in stats_of_all(load, found).items()}
    return seen | {"can_be_throttled": bool(found.can_be_throttled.item())}
