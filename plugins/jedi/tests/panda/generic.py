"""What PanDA's generic job broker decides on a database, with the draws fixed."""

from __future__ import annotations

from typing import Any

from panda.decisions import Decided, _decide, _tasks


class NamesInOrder:
    """Stands for the module ``random``: queues of equal weight go by name."""

    @staticmethod
    def shuffle(candidates: list[Any]) -> None:
        """Put them in the order of their names."""
        candidates.sort(key=lambda one: one.siteName)


def decide_generic(buffer: Any, ddm: Any, *, pseudo_input: bool | None = None) -> list[Decided]:
    """Ask PanDA's generic job broker for every chunk of the tasks that wait for jobs.

    Args:
        buffer: PanDA's task buffer.
        ddm: its client of data management.
        pseudo_input: only chunks whose master dataset is a pseudo one, or none of them; None: all.
    """
    from pandajedi.jedibrokerage import GenJobBroker as module

    module.random = NamesInOrder
    found = []
    for analysis in (False, True):
        for _, items in _tasks(buffer, analysis=analysis):
            for item in items:
                if pseudo_input is None or item[2].masterDataset.isPseudo() == pseudo_input:
                    found.append(_decide(module.GenJobBroker, buffer, ddm, item, {}))
    return found
