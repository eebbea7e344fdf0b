-- Nodes at which jobs of several tasks fail: their pilots are given no jobs until held_until. The agent "outcomes" writes them
-- while LEARNED_AVOID_NODES is on, so that a pilot's request reads one row and no key.

CREATE TABLE broker.held_nodes (
    queue text NOT NULL,
    node text NOT NULL,
    held_until timestamptz NOT NULL,
    failed bigint NOT NULL,
    ended bigint NOT NULL,
    tasks integer NOT NULL,
    PRIMARY KEY (queue, node)
);
