"""Queues without any job of the share, which get some to start with.

Source: PanDA production brokerage, caps and ordering; MAX_PRIO_TO_BOOTSTRAP.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.rules.contract import Load


def is_bootstrap(load: Load) -> Bools:
    """Shape of ``load.running``: no jobs of the share at all, for chunks that may go there first."""
    jobs = load.actually_running + load.activated + load.assigned + load.starting + load.defined
    eligible = load.bootstrap_allowed & ~load.merging & ~load.express
    return np.asarray((jobs == 0) & eligible)
