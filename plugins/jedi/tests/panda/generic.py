"""What PanDA's generic job broker decides on a database, with the draws fixed."""

from __future__ import annotations

from typing import Any

from panda.decisions import Decided, _decide, _tasks
from panda.remote import Remote


class NamesInOrder:
    """Stands for the module ``random``: queues of equal weight go by name."""

    @staticmethod
    def shuffle(candidates: list[Any]) -> None:
        """Put them in the order of their names."""
        candidates.sort(key=lambda one: one.siteName)


def decide_generic(buffer: Any, ddm: Any) -> list[Decided]:
    """Ask PanDA's generic job broker for every chunk of the tasks that wait for jobs.

    Chunks without input are decided with the client of data management that PanDA ships for a new VO: it cannot look up
    files, so that others are brokered with none.

    Args:
        buffer: PanDA's task buffer.
        ddm: a client that looks up files.
    """
    from pandajedi.jedibrokerage import GenJobBroker as module
    from pandajedi.jediddm.GenDDMClient import GenDDMClient

    shipped = Remote(GenDDMClient(None))

    module.random = NamesInOrder
    decisions = []
    for analysis in (False, True):
        for _, items in _tasks(buffer, analysis=analysis):
            for item in items:
                client = ddm if item[2].getDatasets() else shipped
                decisions.append(_decide(module.GenJobBroker, buffer, client, item, {}))
    return decisions
