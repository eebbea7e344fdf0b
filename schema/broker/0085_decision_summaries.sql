-- What lists read instead of decisions, written in the transactions of the cycles.
-- All instants are of the brokerage's clock; buckets are UTC.

-- The last decision of each brokerage about each task (datasetid NULL) or chunk.
--   decision, decided_at   of broker.decisions
--   outcome_since          since when outcome and reason have been these
--   waiting_since          since when nothing was brokered; NULL where the last outcome is brokered
--   last_seen_at, last_agent_run  the last cycle that decided about it
--   decisions              how many cycles have decided about it since outcome_since
--   seen_again             how many of them were recorded on the row `decision`
--   pending_until          next try: when the task is brokered again
--   candidate_count, jobs, assigned  of the last decision
--   state, work_state      digests by which an unchanged decision is recognised
CREATE TABLE broker.chunk_states (
    brokerage text NOT NULL,
    jeditaskid bigint NOT NULL,
    datasetid bigint,
    ramcount double precision,
    decision bigint NOT NULL,
    decided_at timestamptz NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    outcome_since timestamptz NOT NULL,
    waiting_since timestamptz,
    last_seen_at timestamptz NOT NULL,
    last_agent_run bigint,
    decisions integer NOT NULL,
    seen_again integer NOT NULL,
    pending_until timestamptz,
    candidate_count integer NOT NULL,
    jobs bigint NOT NULL,
    assigned jsonb NOT NULL,
    state bytea NOT NULL,
    work_state bytea NOT NULL,
    UNIQUE NULLS NOT DISTINCT (jeditaskid, brokerage, datasetid, ramcount)
) WITH (fillfactor = 70);
CREATE INDEX chunk_states_decision_idx ON broker.chunk_states (decision);

-- What was decided, by main reason, in buckets of 5 minutes (2 days) and of an hour (90 days).
--   bucket_at, bucket_s  start of the bucket, and 300 or 3600
--   decisions            how often it was decided so
--   chunks               distinct chunks or tasks that were decided so in the bucket
--   jobs                 jobs (or tasks) that were assigned
CREATE TABLE broker.reason_counts (
    bucket_s integer NOT NULL,
    bucket_at timestamptz NOT NULL,
    brokerage text NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    decisions bigint NOT NULL,
    chunks bigint NOT NULL,
    jobs bigint NOT NULL,
    PRIMARY KEY (bucket_s, bucket_at, brokerage, outcome, reason)
);

-- What each queue (or nucleus) got and what it was rejected for, by reason code, in the same buckets.
--   counts  packed, one row a bucket: decisions, chunks and jobs by queue and code; broker/domain/queue_counts.py
CREATE TABLE broker.queue_counts (
    bucket_s integer NOT NULL,
    bucket_at timestamptz NOT NULL,
    brokerage text NOT NULL,
    counts bytea NOT NULL,
    PRIMARY KEY (bucket_s, bucket_at, brokerage)
);

-- What waited at the first cycle of each bucket, by main reason.
CREATE TABLE broker.waiting_counts (
    bucket_s integer NOT NULL,
    bucket_at timestamptz NOT NULL,
    brokerage text NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    chunks bigint NOT NULL,
    tasks bigint NOT NULL,
    PRIMARY KEY (bucket_s, bucket_at, brokerage, outcome, reason)
);
