-- Nodes that pilots presented when they asked for a job, so that who waits can be told what was there. Nodes that differ by
-- little in time, memory and scratch space are one row an hour: of these the one with most memory, time, work and space
-- ("room") is kept. requests: how often nodes of the row asked in the hour.
CREATE TABLE broker.presented_nodes (
    hour timestamptz NOT NULL,
    site varchar(255) NOT NULL,
    ce varchar(255) NOT NULL,
    queue varchar(255) NOT NULL,
    signature varchar(32) NOT NULL,
    node jsonb NOT NULL,
    room bigint[] NOT NULL,
    requests bigint NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (hour, site, ce, queue, signature)
);

-- All tags that any node ever presented: what is not here is a mistake in an expression, or not there yet.
CREATE TABLE broker.presented_tags (
    tag varchar(255) NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (tag)
);
