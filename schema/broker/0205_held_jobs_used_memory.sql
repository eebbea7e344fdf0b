-- Activated jobs whose input failed lately at a node: its pilots are not given them before the instant. The agent
-- "outcomes" keeps it, and "activation" for the jobs that it activates; nearly always it is empty. queue: where the job
-- waits, empty for any.
CREATE TABLE broker.held_jobs (
    pandaid bigint NOT NULL,
    node text NOT NULL,
    queue text NOT NULL,
    held_until timestamptz NOT NULL,
    PRIMARY KEY (pandaid, node)
);
-- Which nodes of a queue have any is read for each queue, some times a minute.
CREATE INDEX held_jobs_queue_idx ON broker.held_jobs (queue, node);

-- Sums over the jobs of a task, of the logarithm of the MB that they used: what new tasks of its kind are to ask for is
-- worked out from them. NULL: the task was looked at before they were kept.
ALTER TABLE broker.request_learned ADD COLUMN used_jobs bigint;
ALTER TABLE broker.request_learned ADD COLUMN used_ln_sum double precision;
ALTER TABLE broker.request_learned ADD COLUMN used_ln_square_sum double precision;
