"""What a change of values does, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping


def comparison_sentence(summary: Mapping[str, int]) -> str:
    """How much of what was decided again becomes different; ``summary``: of a preview or a what-if."""
    losing = summary["tasks_losing_last_queue"]
    return (
        f"{summary['changed']:,} of {summary['decisions']:,} decisions change, "
        f"{summary['jobs_moved']:,} of {summary['jobs']:,} jobs move, "
        f"{losing:,} {'task loses its' if losing == 1 else 'tasks lose their'} last queue."
    )
