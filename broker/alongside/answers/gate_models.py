"""The verdict of the gate."""

from __future__ import annotations

from typing import Literal

from broker.alongside.answers.shadow_models import Shadow
from broker.alongside.model.gate_file import GateFile
from broker.store.query_context import Answer

Criterion = Literal["days", "chunks", "agreement", "queue_share", "rule_share", "profile", "fall_backs", "doctor"]


class GateLine(Answer):
    """One criterion.

    Attributes:
        brokerage: of ours; None for the installation as a whole.
        label: prodsourcelabel; None for all of them.
        criterion: named as in the file; ``days``: on which something was compared.
        passed: whether it holds.
        value: what was found; None where there was nothing to be found, or where it is no number.
        limit: what it is held against; None where it is no number.
        detail: what stands behind it: what is beyond the limit, or why there is no value.
    """

    brokerage: str | None
    label: str | None
    criterion: Criterion
    passed: bool
    value: float | None
    limit: float | None
    detail: str


class Gate(Answer):
    """Whether work may be handed over.

    Attributes:
        passed: whether every criterion holds.
        where: file with the criteria.
        gate: the criteria.
        lines: each of them, with what was found.
        shadow: all that was compared.
    """

    passed: bool
    where: str
    gate: GateFile
    lines: tuple[GateLine, ...]
    shadow: Shadow
