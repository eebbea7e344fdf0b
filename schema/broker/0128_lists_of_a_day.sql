-- What lists of a whole day read: whole hours in one row each, and when chunks changed.

-- The counts of the buckets of 5 minutes of an hour that is over, added up. Written in the cycle that begins a new hour;
-- deleted where a decision is counted in that hour later: without such a row the buckets themselves are read.
CREATE TABLE broker.queue_hours (
    bucket_at timestamptz NOT NULL,
    brokerage text NOT NULL,
    counts bytea NOT NULL,
    PRIMARY KEY (bucket_at, brokerage)
);

-- When outcome or reason of a chunk last changed, the newest last; at most the last 32.
ALTER TABLE broker.chunk_states ADD COLUMN changed_at timestamptz[] NOT NULL DEFAULT '{}';
