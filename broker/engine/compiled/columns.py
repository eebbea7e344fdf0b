"""The flat arrays over which the compiled loop runs: of the chunks and queues of a cycle, of its files, of a block."""

from __future__ import annotations

from typing import NamedTuple

from broker.domain.arrays import AnyArray, Bools, Floats, Ints


class Moving(NamedTuple):
    """The moving rules of the chain, by number, see :mod:`broker.engine.compiled.steps`.

    Attributes:
        weights: (L,) the moving weights, in order.
        cuts: (C,) the cuts, in order.
        room: the step by which jobs at a chosen candidate count against its cap.
        behind: what is added to the index of a cut in the matrix of reasons.
        best: how many candidates a chunk gets at most.
    """

    weights: Ints
    cuts: Ints
    room: int
    behind: int
    best: int


class MovingState(NamedTuple):
    """What a cycle knows of its T chunks beside the blocks.

    Attributes:
        accounting: (T,) number of the tag.
        placed: (A, U) jobs that the cycle has placed, by tag and unified queue.
        moved: (A,) the tags for which it has placed any.
        queue_limit: (T,) NQUEUELIMITSITE.
        min_weight: (T,) MIN_WEIGHT.
        may_bootstrap: (T,) candidates without any jobs may start.
    """

    accounting: Ints
    placed: Floats
    moved: Bools
    queue_limit: Floats
    min_weight: Floats
    may_bootstrap: Bools


class Chunks(NamedTuple):
    """Columns (T,) of the chunks of a cycle: what ranking, drawing and cutting read of them."""

    accounting: Ints
    queue_limit: Floats
    min_weight: Floats
    may_bootstrap: Bools
    group: Ints  # jobs that a candidate is given at a time
    identity: Ints  # (T, 3) of the random stream: task, dataset, memory
    simple: Bools  # its jobs are runs of files, so that the compiled loop cuts them
    start: Ints  # of its master files in the table of files
    stop: Ints
    at_once: Bools
    merging: Bools
    scout: Bools
    has_rule: Bools  # the task says how many files or events a job has
    dynamic: Bools
    files_limit: Ints
    events_limit: Ints  # -1 for none
    size_limit: Floats  # bytes without those of the work directory; NaN for none
    output_limit: Floats  # bytes
    max_walltime: Floats  # seconds; 0 for none
    hs06s_per_event: Floats
    walltime_s_per_mb: Floats
    base_walltime: Floats
    efficiency: Floats
    multiplicity: Floats
    out_per_event: Floats
    out_per_mb: Floats
    work_bytes: Floats
    kind: Ints  # row of the limits of queues


class Queues(NamedTuple):
    """Columns (Q,) of the candidates, and what each allows the jobs of chunks of each kind (K, Q)."""

    unified: Ints
    own_size: Ints
    scratch_mb: Floats
    maxtime: Floats
    mintime: Floats
    cores: Floats
    corepower: Floats
    direct: Bools


class Files(NamedTuple):
    """Columns (F,) of the files of all inputs, and their sums before each file and behind the last (F + 1)."""

    events: Ints
    size: Ints
    first_bytes: Ints
    first_names: Ints
    next_break: Ints
    unlimited: Bools
    events_sum: Ints
    size_sum: Ints
    bytes_sum: Ints
    names_sum: Ints


class FlatBlock(NamedTuple):
    """A block of B chunks, by its N pairs of a chunk and a feasible candidate, ordered by chunk, then by queue.

    Attributes:
        row: position of its first chunk in the work.
        offset: (B + 1,) chunk ``b`` has the pairs ``offset[b]:offset[b + 1]``.
        queue: (N,) position of the candidate.
        load: (5, N) running, defined, assigned, activated and starting jobs as the snapshot shows them.
        all_local: (N,).
        fixed: (F, N) the factors that do not move.
        urgent: (B,).
        position: (B, Q) what decides about each pair; the loop writes what it cuts.
        placed: (A, U) jobs that the cycle has placed, by tag and unified queue; the loop adds to it.
        moved: (A,) the tags for which it has placed any.
    """

    row: int
    offset: Ints
    queue: Ints
    load: Floats
    all_local: Bools
    fixed: Floats
    urgent: Bools
    position: AnyArray
    placed: Floats
    moved: Bools


class Outcome(NamedTuple):
    """What the loop writes for a block: the chosen candidates of each chunk, best first, and its jobs.

    Attributes:
        chosen: (B,) number of chosen candidates.
        place: (B, K) their positions.
        pair: (B, K) their numbers among the pairs of the block.
        weight: (B, K), of those that bootstrap, too.
        factors: (B, L + F, K).
        bootstrap: (B, K).
        before: (B, U) the jobs placed for the tag of the chunk before it.
        jobs: (B, 2) first and behind the last job of the chunk.
        numbers: (7, J) of each job: candidate, first and stop of its files, events, distinct files, bytes, scratch MB.
        figures: (2, J) of each job: output in MB, walltime in seconds.
    """

    chosen: Ints
    place: Ints
    pair: Ints
    weight: Floats
    factors: Floats
    bootstrap: Bools
    before: Floats
    jobs: Ints
    numbers: Ints
    figures: Floats
