"""The chunks of a work as bytes, each by itself: what they have in common is worked out for a block of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import taken
from broker.domain.column_texts import SliceTexts, row_texts, to_json
from broker.domain.counted_load import CountedLoad, QueueJobs, forms_of, stored_part
from broker.domain.work import Work
from broker.domain.work_bytes import pack_work
from broker.domain.work_codec import NO_LOAD, VERSION

_CHUNKS_OF_A_BLOCK = 256


class WorkEncoder:
    """Gives for each chunk of a work the bytes that :func:`broker.domain.work_codec.encode_work` gives for it alone.

    Columns are written for a block of chunks at once, so that chunks are best asked for in their order.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        # the inputs of a chunk are neighbours, and so are the replicas of an input
        inputs = np.searchsorted(work.inputs.chunk, np.arange(len(work.chunks) + 1))
        self._inputs: list[int] = inputs.tolist()
        self._replicas: list[int] = np.searchsorted(work.replicas.input, inputs).tolist()
        self._block: _Block | None = None
        self._names: Sequence[str] = ()
        self._forms: list[str] = []

    def encode(self, row: int, load: CountedLoad = NO_LOAD, cut: str | None = None) -> bytes:
        """The chunk at ``row``.

        Args:
            row: position of the chunk.
            load: what the cycle had counted before the chunk.
            cut: how the chunk is cut into jobs, as JSON.
        """
        low = row - row % _CHUNKS_OF_A_BLOCK
        block = self._block
        if block is None or block.low != low:
            block = self._block = _Block(self._work, low, self._inputs, self._replicas)
        first, end = self._inputs[row], self._inputs[row + 1]
        text = f'{block.tables(row, first, end, self._replicas)},"v":{VERSION},"placed":{self._placed(load)}'
        if block.asked is not None:
            text += f',"a":{block.asked[row - low]}'
        if cut is not None:
            text += f',"cut":{cut}'
        return pack_work(f"{text}}}".encode())

    def _placed(self, load: CountedLoad) -> str:
        """The JSON of the load; all loads of a cycle are over the same queues."""
        texts = []
        for name, part in load.parts():
            if isinstance(part, QueueJobs):
                if part.names is not self._names:
                    self._names, self._forms = part.names, forms_of(part.names)
                texts.append(f'"{name}":{part.text(self._forms)}')
            else:
                texts.append(f'"{name}":{to_json(stored_part(part))}')
        return "{" + ",".join(texts) + "}"


class _Block:
    """The tables of neighbouring chunks as texts.

    Attributes:
        low: the first of the chunks.
        asked: of each chunk what analysis asks for; None for production.
    """

    def __init__(self, work: Work, low: int, inputs: list[int], replicas: list[int]) -> None:
        high = min(low + _CHUNKS_OF_A_BLOCK, len(work.chunks))
        self.low, self._first_input, self._first_replica = low, inputs[low], replicas[low]
        self._chunks = row_texts(taken(work.chunks, slice(low, high)), high - low)
        self._inputs = SliceTexts(taken(work.inputs, slice(inputs[low], inputs[high])))
        self._replicas = SliceTexts(taken(work.replicas, slice(replicas[low], replicas[high])))
        self._input_of: list[int] = work.replicas.input[replicas[low] : replicas[high]].tolist()
        asked = work.analysis_request
        self.asked = None if asked is None else row_texts(taken(asked, slice(low, high)), high - low)

    def tables(self, row: int, first: int, end: int, replicas: list[int]) -> str:
        """The beginning of the body of a chunk, with its inputs from ``first`` to ``end``."""
        start, stop = replicas[row] - self._first_replica, replicas[row + 1] - self._first_replica
        places = [at - first for at in self._input_of[start:stop]]
        found = self._inputs.text(first - self._first_input, end - self._first_input, [0] * (end - first))
        held = self._replicas.text(start, stop, places)
        return f'{{"c":{self._chunks[row - self.low]},"i":{found},"r":{held}'
