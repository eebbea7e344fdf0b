"""The moving rules of a chain as the compiled loop takes them: by number, with their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.engine.compiled.columns import Moving
from broker.engine.compiled.loop_steps import CAP, CAP_WITHOUT_DEFINED, MOST_ARGUMENTS, STEPS, arguments_of, step_of
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.rules.contract import LoadCut, Rule

#: Index of the factor that moves with the user's room, where none does.
NO_NEW_WEIGHT = -1


def moving_steps(chain: QueueChain, tuning: Tuning, other_cap: LoadCut) -> Moving | None:
    """The moving rules of a chain by number; None if the loop does not know one of them.

    Args:
        chain: of the cycle.
        tuning: of the cycle.
        other_cap: what says which room a candidate has where the chain has no cap.
    """
    tunings = chain.tunings(tuning)
    weights, cuts = numbered(chain.load_weights, tunings), numbered(chain.cuts, tunings)
    other = numbered((other_cap,), {other_cap.name: tuning})
    if weights is None or cuts is None or other is None or chain.steps.placement.together:
        return None
    room = next((at for at, step in enumerate(cuts[0]) if step in (CAP, CAP_WITHOUT_DEFINED)), None)
    caps = other if room is None else (cuts[0][room:], cuts[1][room:])
    return Moving(
        weights=weights[0],
        weight_arguments=weights[1],
        cuts=cuts[0],
        cut_arguments=cuts[1],
        room=int(caps[0][0]),
        room_arguments=caps[1][0],
        behind=2 * len(chain.filters),
        filters=np.zeros(0, dtype=np.int64),
        filter_arguments=np.zeros((0, MOST_ARGUMENTS)),
        reasons=np.zeros(0, dtype=np.int64),
        stabilizer=np.zeros(0),
        new_weight=NO_NEW_WEIGHT,
        new_weight_arguments=np.zeros(0),
    )


def numbered(rules: Sequence[Rule], tunings: Mapping[str, Tuning]) -> tuple[Ints, Floats] | None:
    """Rules of one kind by number (M,), with their arguments (M, MOST_ARGUMENTS); None if the loop lacks one of them.

    Args:
        rules: in order.
        tunings: by the name of the rule.
    """
    steps = [step_of(rule) for rule in rules]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return None
    arguments = [arguments_of(step, tunings[rule.name]) for rule, step in zip(rules, known, strict=True)]
    numbers = np.array([STEPS[step.name].number for step in known], dtype=np.int64)
    return numbers, np.array(arguments, dtype=np.float64).reshape(len(known), MOST_ARGUMENTS)
