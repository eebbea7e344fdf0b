"""Tasks that need network connectivity get queues that have it."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, text

# accepted connectivities and IP stacks of queues by the value of the split rules IP and IK; other values need nothing
_CONNECTIVITIES = {1: ("full",), 2: ("full", "http")}
_STACKS = {4: ("IPv4",), 6: ("IPv6",)}


class Connectivity(Filter[JobPairs]):
    """Keeps queues with the outbound connectivity (split rule ``IP``) and the IP stack (``IK``) that the task requests.

    ``full`` meets every need, ``http`` only http; a stack must be equal, and an unset one meets no need. Tasks without
    a need may run anywhere. Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage,
    wnconnectivity.
    """

    name = "connectivity"
    reason = Reason(
        code="network",
        title="The queue has the network connectivity that the task asks for",
        violation="The worker nodes of the queue lack the network connectivity that the task asks for",
        no_candidate="has the network connectivity that the task asks for",
        who="ask",
        cure="The site states or gives the connectivity of its worker nodes (`wnconnectivity` in CRIC), or the task "
        "asks for less.",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks that request connectivity or an IP stack."""
        needs = [pairs.chunks.ip_connectivity == wanted for wanted in _CONNECTIVITIES]
        needs += [pairs.chunks.ip_stack == wanted for wanted in _STACKS]
        return np.asarray(np.logical_or.reduce(needs) & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue has the network connectivity that the task requests."""
        keep: Bools = np.ones(
            np.broadcast_shapes(pairs.chunks.ip_stack.shape, pairs.candidates.name.shape), dtype=np.bool_
        )
        for wanted, accepted in _CONNECTIVITIES.items():
            fits = np.logical_or.reduce([pairs.candidates.connectivity == one for one in accepted])
            keep &= (pairs.chunks.ip_connectivity != wanted) | fits
        for wanted, accepted in _STACKS.items():
            keep &= (pairs.chunks.ip_stack != wanted) | (pairs.candidates.ip_stack == accepted[0])
        return keep

    def observe(self, pairs: JobPairs) -> Observation:
        """The connectivity of the queue, and the combinations that would pass."""
        have = f"{text(pairs.candidates.connectivity) or 'none'}#{text(pairs.candidates.ip_stack) or 'unset'}"
        networks = _CONNECTIVITIES.get(
            int(pairs.chunks.ip_connectivity.item()), (text(pairs.candidates.connectivity) or "none",)
        )
        stacks = _STACKS.get(int(pairs.chunks.ip_stack.item()), (text(pairs.candidates.ip_stack) or "unset",))
        fitting = ", ".join(f"{network}#{stack}" for network in networks for stack in stacks)
        return Observation(have, "in", fitting, "connectivity#stack", "queue.wnconnectivity")
