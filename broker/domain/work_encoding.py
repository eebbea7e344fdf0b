"""The chunks of a work as bytes, each by itself: what they have in common is worked out for a block of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.column_texts import RowOfEach, RowsOfEach, to_json
from broker.domain.counted_load import CountedLoad, QueueJobs, forms_of, stored_part
from broker.domain.work import Work
from broker.domain.work_bytes import pack_work
from broker.domain.work_codec import NO_LOAD, VERSION


class WorkEncoder:
    """Gives for each chunk of a work the bytes that :func:`broker.domain.work_codec.encode_work` gives for it alone."""

    def __init__(self, work: Work) -> None:
        # the inputs of a chunk are neighbours, and so are the replicas of an input
        inputs = np.searchsorted(work.inputs.chunk, np.arange(len(work.chunks) + 1))
        self._starts: list[int] = inputs.tolist()
        self._replica_starts: list[int] = np.searchsorted(work.replicas.input, inputs).tolist()
        self._input_of = work.replicas.input
        self._chunks = RowOfEach(work.chunks, len(work.chunks))
        self._inputs = RowsOfEach(work.inputs, self._starts)
        self._replicas = RowsOfEach(work.replicas, self._replica_starts)
        asked = work.analysis_request
        self._asked = None if asked is None else RowOfEach(asked, len(work.chunks))
        self._names: Sequence[str] = ()
        self._forms: list[str] = []

    def encode(self, row: int, load: CountedLoad = NO_LOAD, cut: str | None = None) -> bytes:
        """The chunk at ``row``.

        Args:
            row: position of the chunk.
            load: what the cycle had counted before the chunk.
            cut: how the chunk is cut into jobs, as JSON.
        """
        first, end = self._starts[row], self._starts[row + 1]
        owner = self._input_of[self._replica_starts[row] : self._replica_starts[row + 1]] - first
        inputs = self._inputs.text(row, [0] * (end - first))
        tables = f'"c":{self._chunks.text(row)},"i":{inputs},"r":{self._replicas.text(row, owner.tolist())}'
        text = f'{{{tables},"v":{VERSION},"placed":{self._placed(load)}'
        if self._asked is not None:
            text += f',"a":{self._asked.text(row)}'
        if cut is not None:
            text += f',"cut":{cut}'
        return pack_work(f"{text}}}".encode())

    def _placed(self, load: CountedLoad) -> str:
        """The JSON of the load; nearly all loads of a cycle are over the same queues, though not always in one list."""
        texts = []
        for name, part in load.parts():
            if isinstance(part, QueueJobs):
                if part.names is not self._names and part.names != self._names:
                    self._names, self._forms = part.names, forms_of(part.names)
                texts.append(f'"{name}":{part.text(self._forms)}')
            else:
                texts.append(f'"{name}":{to_json(stored_part(part))}')
        return "{" + ",".join(texts) + "}"
