"""Faults in the input of a chunk that prevent brokering at any queue.

Source: PanDA production brokerage, dataset completeness and available files.
"""

from __future__ import annotations

from broker.domain.decisions import Reason

INPUT_REASONS = (
    Reason(
        code="unknown_dataset",
        title="the replica catalogue does not know an input dataset (Rucio was asked, if it feeds it)",
        violation="the replica catalogue does not know the input dataset",
        who="you",
        cure="Correct the name of the input dataset. If it is right, the dataset has been deleted or was never "
        "written: `rucio list-dids` shows what there is.",
    ),
    Reason(
        code="no_complete_replica",
        title="an input dataset is complete nowhere",
        violation="the input has no complete replica that can be read",
        who="wait",
        cure="Wait until the dataset is complete at some site, or ask the data operators to complete it.",
    ),
    Reason(
        code="replica_unreadable",
        title="an input dataset is complete only where nobody can read it",
        violation="no replica of the input can be read",
        who="ask",
        cure="The site, or the data operators, open the storage that has the dataset, or copy it elsewhere.",
    ),
    Reason(
        code="dataset_not_asked",
        title="Rucio feeds the replica catalogue and has not been asked for an input dataset yet",
        violation="Rucio has not been asked for the replicas of the input yet",
        who="wait",
        cure="Wait: Rucio is asked in the next cycle of the agent `rucio_replicas`, and the task goes on by itself.",
    ),
)
#: The codes by their numbers; 0 means that nothing is wrong.
INPUT_FAULTS = ("", *(reason.code for reason in INPUT_REASONS))
