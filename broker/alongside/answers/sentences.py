"""Shadow mode in sentences."""

from __future__ import annotations

from broker.alongside.answers.shadow_models import AgreementLine

NOTHING = "PanDA made no jobs in this time, and let no task wait, that could be compared"
SIDES = {"panda_only": "PanDA placed, ours refused", "ours_only": "PanDA waits, ours brokers"}
UNCOMPARED = {
    "no_decision": "ours had not decided about the chunk",
    "too_old": "the last decision of ours was too old",
    "no_dataset": "the input of the jobs is not in filestable4 any more",
}


def agreement_sentence(line: AgreementLine) -> str:
    """One brokerage in one sentence."""
    if line.brokerage == "production_task":
        return f"{line.brokerage}: {_of(line.agreed_jobs, line.compared_jobs)} tasks at a nucleus that ours offers"
    return (
        f"{line.brokerage}: {_of(line.agreed_jobs, line.compared_jobs)} jobs at a candidate of ours; "
        f"{_of(line.agreed_chunks, line.chunks)} chunks without a difference; "
        f"{_of(line.agreed_waits, line.waits)} waits of PanDA's with nothing found by ours either"
    )


def _of(part: int, whole: int) -> str:
    share = f" ({100 * part / whole:.1f} %)" if whole else ""
    return f"{part:,} of {whole:,}{share}"
