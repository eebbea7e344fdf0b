"""The flat arrays over which the compiled loop runs: of the chunks and queues of a cycle, of its files, of a block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints


class MovingRules(NamedTuple):
    """The moving rules of the chain, by number, with their arguments; A is the largest number of arguments.

    See :mod:`broker.engine.compiled.loop_steps` for numbers and arguments.

    Attributes:
        weights: (L,) the moving weights, in order.
        weight_arguments: (L, A) the arguments of each.
        cuts: (C,) the cuts, in order.
        cut_arguments: (C, A) the arguments of each.
        room: the step by which jobs at a chosen candidate count against its cap.
        room_arguments: (A,) the arguments of that step.
        behind: the offset of the index of a cut in the matrix of reasons.
        filters: (M,) the filters that judge again with placed jobs, in order; none in production.
        filter_arguments: (M, A) the arguments of each.
        reasons: (M,) their indices in the matrix of reasons.
        stabilizer: (6,) the values of ``broker.domain.analysis.KEYS`` for the new weight; none in production.
        new_weight: index of the factor that moves with the room of the user, -1 for none.
        new_weight_arguments: (2,) ``LEAST_PART`` and ``LEAST`` of it; none in production.
    """

    weights: Ints
    weight_arguments: Floats
    cuts: Ints
    cut_arguments: Floats
    room: int
    room_arguments: Floats
    behind: int
    filters: Ints
    filter_arguments: Floats
    reasons: Ints
    stabilizer: Floats
    new_weight: int
    new_weight_arguments: Floats


class UserState(NamedTuple):
    """Jobs that an analysis cycle has placed, by user and by resource type; all arrays empty in production.

    Attributes:
        owner: (T,) number of user, share and label of each chunk.
        share: (T,) number of its share.
        kind: (T,) number of its resource type, 0 for all types.
        person: (T,) number of user and share, -1 for no user.
        merging: (T,) its jobs do not count for the user.
        queue_kind: (Q,) number of the resource type of a candidate, 0 for the type of the chunk.
        of_user: (O, U) jobs by owner and unified queue.
        of_type: (S, K, U) jobs by share and type.
        new_users: (S, U) users of a share that had no jobs there before.
        present: (P, U) whether a person has any job there.
    """

    owner: Ints
    share: Ints
    kind: Ints
    person: Ints
    merging: Bools
    queue_kind: Ints
    of_user: Floats
    of_type: Floats
    new_users: Floats
    present: Bools


class UserPairs(NamedTuple):
    """Per-pair input of filters and weight for users, besides :class:`FlatBlock`; empty in production.

    Attributes:
        load: (7, N) by pair: the user's queued and running jobs, users, their running jobs, the to-running rate, then
            queued and running jobs of the type.
        ignored: (N,) the user is not checked there.
        class_weight: (N,) W_s of the new weight; empty without it.
        site_named: (B,) the task names its one queue.
        jobs: (B,) jobs that the chunk would make.
    """

    load: Floats
    ignored: Bools
    class_weight: Floats
    site_named: Bools
    jobs: Floats


class MovingState(NamedTuple):
    """State of a cycle over its T chunks, outside the blocks.

    Attributes:
        accounting: (T,) number of the accounting key.
        placed: (A, U) jobs that the cycle has placed, by accounting key and unified queue.
        moved: (A,) the accounting keys for which it has placed any.
        queue_limit: (T,) jobs that may wait at a queue, as in a rule's ``Load``.
        min_weight: (T,) MIN_WEIGHT.
        may_bootstrap: (T,) candidates without any jobs may start.
    """

    accounting: Ints
    placed: Floats
    moved: Bools
    queue_limit: Floats
    min_weight: Floats
    may_bootstrap: Bools


#: Fields of a chunk that ranking, drawing and cutting read.
CHUNK = np.dtype(
    [
        ("accounting", "i8"),  # number of the accounting key
        ("queue_limit", "f8"),
        ("min_weight", "f8"),
        ("may_bootstrap", "?"),
        ("group", "i8"),  # jobs given to a candidate at a time
        ("one_queue", "?"),  # a single pre-assigned queue, which gets all jobs whatever its own size is
        ("task", "i8"),  # with the next two and the seed, the words of the random stream
        ("dataset", "i8"),
        ("memory", "i8"),
        ("by_loop", "?"),  # the loop cuts its jobs, as it rounds all of its figures alike
        ("start", "i8"),  # of its master files among all files
        ("stop", "i8"),
        ("by_file", "?"),  # its jobs grow file by file, as they are not runs of files with distinct names
        ("listed", "i8"),  # first of its files in the list for such chunks
        ("names", "i8"),  # number of different names of these files
        ("uses", "i8"),  # of its secondary datasets
        ("uses_stop", "i8"),
        ("secondary_events", "?"),  # the limit is on events of its first secondary, not of the master
        ("replicas", "i8"),  # of its master, where parts of it are in different places
        ("replicas_stop", "i8"),
        ("at_once", "?"),
        ("merging", "?"),
        ("scout", "?"),
        ("has_rule", "?"),  # the task says how many files or events a job has
        ("dynamic", "?"),
        ("files_limit", "i8"),
        ("events_limit", "i8"),  # -1 for none
        ("size_limit", "f8"),  # bytes without those of the work directory; NaN for none
        ("output_limit", "f8"),  # bytes
        ("max_walltime", "f8"),  # seconds; 0 for none
        ("hs06s_per_event", "f8"),
        ("walltime_s_per_mb", "f8"),
        ("base_walltime", "f8"),
        ("efficiency", "f8"),
        ("multiplicity", "f8"),
        ("out_per_event", "f8"),
        ("out_per_mb", "f8"),
        ("work_bytes", "f8"),
        ("kind", "i8"),  # row of the limits of queues
    ]
)
#: Fields of a candidate; a chunk gives a negative ``own_size`` only once.
QUEUE = np.dtype([("unified", "i8"), ("own_size", "i8")])
#: Limits of a candidate for the jobs of chunks of one kind; 0 is no limit.
LIMITS = np.dtype(
    [(name, "f8") for name in ("scratch_mb", "maxtime", "mintime", "cores", "corepower")] + [("direct", "?")]
)
#: How a secondary dataset is used, see ``broker.work.input_files.DatasetUse``.
USE = np.dtype(
    [
        ("first", "i8"),  # of its files in the list
        ("count", "i8"),  # of its files
        ("file", "i8"),  # the first of its files among all files
        ("by_boundary", "i8"),  # first of them ordered by boundary in the list; -1 where boundaries do not matter
        ("nosplit", "?"),
        ("repeat", "?"),
        ("reusable", "?"),
        ("files_per_job", "i8"),  # -1 for none
        ("event_ratio", "f8"),  # NaN for none
        ("ratio", "f8"),
    ]
)
#: A file of a chunk that is cut file by file; names are numbered from 1 on in each chunk.
LISTED = np.dtype([(name, "i8") for name in ("name", "bytes", "boundary", "file")])


class Files(NamedTuple):
    """Columns of the F files of all inputs.

    Attributes:
        events: (F,) events that each stands for.
        size: (F,) bytes that it stands for.
        first_bytes: (F,) bytes that a run beginning there holds in addition to the sums.
        first_names: (F,) names that it holds in addition.
        next_break: (F,) the next file at which a job has to start anew.
        unlimited: (F,) a job from there on ends only at its boundary.
        sums: (4, F + 1) over all files before each: events, bytes stood for, bytes and number of distinct files.
    """

    events: Ints
    size: Ints
    first_bytes: Ints
    first_names: Ints
    next_break: Ints
    unlimited: Bools
    sums: Ints


class Parts(NamedTuple):
    """Columns of chunks with secondary datasets, or with distributed parts.

    Attributes:
        uses: (S,) of :data:`USE`, of all secondaries.
        listed: (L,) of :data:`LISTED`: master first, then the secondaries, then those ordered by boundary.
        replica: (R,) row of each replica among those of the work.
        held_from: (R,) the start in ``held`` of the mask of the files that it holds, -1 where it holds all.
        held: masks of files.
        storage: (R,) number of its storage, -1 where the cycle does not know it.
        reads: (storages + 1, U + 1) whether a unified queue reads a storage.
    """

    uses: AnyArray
    listed: AnyArray
    replica: Ints
    held_from: Ints
    held: Bools
    storage: Ints
    reads: Bools


class Columns(NamedTuple):
    """Columns of a cycle that the loop reads, outside the blocks.

    Attributes:
        chunks: (T,) of :data:`CHUNK`.
        queues: (Q,) of :data:`QUEUE`.
        limits: (K, Q) of :data:`LIMITS`, by kind of chunk.
        files: of all inputs.
        parts: of chunks that are more than runs of files in one place.
    """

    chunks: AnyArray
    queues: AnyArray
    limits: AnyArray
    files: Files
    parts: Parts


class FlatBlock(NamedTuple):
    """A block of B chunks, by its N pairs of a chunk and a feasible candidate, ordered by chunk, then by queue.

    Attributes:
        row: position of its first chunk in the work.
        offset: (B + 1,) chunk ``b`` has the pairs ``offset[b]:offset[b + 1]``.
        queue: (N,) position of the candidate.
        load: (5, N) running, defined, assigned, activated and starting jobs as the snapshot shows them.
        all_local: (N,).
        fixed: (G, N) factors that multiply the moving weights.
        factors: (F, N) the single factors behind ``fixed``, as they are shown.
        urgent: (B,).
        best: (B,) the most candidates that each chunk gets.
        left: (N,) no filter has rejected the pair because of placed jobs; the loop writes it.
        position: (B, Q) the index of what decides each pair; the loop writes its cuts.
        placed: (A, U) jobs that the cycle has placed, by accounting key and unified queue; the loop adds to it.
        moved: (A,) the accounting keys for which it has placed any.
    """

    row: int
    offset: Ints
    queue: Ints
    load: Floats
    all_local: Bools
    fixed: Floats
    factors: Floats
    urgent: Bools
    best: Ints
    left: Bools
    position: AnyArray
    placed: Floats
    moved: Bools


class Outcome(NamedTuple):
    """Output of the loop for a block: the chosen candidates of each chunk, best first, and its jobs.

    Attributes:
        ranked: (B,) whether there was anything to rank.
        chosen: (B,) number of chosen candidates.
        place: (B, K) their positions.
        pair: (B, K) their numbers among the pairs of the block.
        weight: (B, K), also of those that bootstrap.
        factors: (B, L + F, K).
        bootstrap: (B, K).
        before: (B, U) the jobs placed for the accounting key of the chunk before it.
        users_before: (3, B, U) the same for its user and its type, and the users that were new; empty in production.
        jobs: (B, 2) first and stop of the jobs of the chunk.
        numbers: (7, J) of each job: candidate, first and stop of its files, events, distinct files, bytes, scratch MB.
        figures: (2, J) of each job: output in MB, walltime in seconds.
        span_of: (B, 2) first and stop of the spans of the chunk, one for each of its jobs and secondary datasets.
        spans: (X, 2) first and stop of the files of a secondary in the list.
    """

    ranked: Bools
    chosen: Ints
    place: Ints
    pair: Ints
    weight: Floats
    factors: Floats
    bootstrap: Bools
    before: Floats
    users_before: Floats
    jobs: Ints
    numbers: Ints
    figures: Floats
    span_of: Ints
    spans: Ints
