-- What jobs' ends tell of queues: hourly sums, most cores running, and the health of queues and nodes. The agent "outcomes"
-- folds each end once, in the order of modificationtime and pandaid, and goes on where it was.

CREATE TABLE broker.queue_record (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    processingtype text NOT NULL,
    resource_type text NOT NULL,
    finished bigint NOT NULL,
    failed bigint NOT NULL,
    closed bigint NOT NULL,
    lost bigint NOT NULL,
    core_s double precision NOT NULL,
    failed_core_s double precision NOT NULL,
    ratio_jobs bigint NOT NULL,
    ratio_ln_sum double precision NOT NULL,
    ratio_ln_square_sum double precision NOT NULL,
    waits bigint[] NOT NULL,
    PRIMARY KEY (hour, queue, kind, processingtype, resource_type)
);
COMMENT ON COLUMN broker.queue_record.waits IS 'jobs by wait: less than 1 min, 2, 4 ... 16384 min, and more';

CREATE TABLE broker.queue_failures (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text NOT NULL,
    fault text NOT NULL,
    failed bigint NOT NULL,
    PRIMARY KEY (hour, queue, kind, error_class, fault)
);

-- kind "all": all jobs of the queue at one instant
CREATE TABLE broker.queue_cores (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    most_cores_running bigint NOT NULL,
    PRIMARY KEY (hour, queue, kind)
);

-- node "": the queue as a whole
CREATE TABLE broker.queue_health (
    queue text NOT NULL,
    kind text NOT NULL,
    node text NOT NULL,
    state text NOT NULL CHECK (state IN ('healthy', 'suspected', 'excluded', 'probation')),
    statistic double precision NOT NULL,
    since_s double precision,
    ended bigint NOT NULL,
    failed bigint NOT NULL,
    tasks bigint[] NOT NULL,
    evidence bigint[] NOT NULL,
    changed_s double precision,
    until_s double precision,
    times integer NOT NULL,
    memory_ended double precision NOT NULL,
    memory_failed double precision NOT NULL,
    last_s double precision,
    last_task bigint NOT NULL,
    run integer NOT NULL,
    probes_ended integer NOT NULL,
    probes_finished integer NOT NULL,
    PRIMARY KEY (queue, kind, node)
);
CREATE INDEX queue_health_state_idx ON broker.queue_health (state) WHERE state <> 'healthy';

-- how jobs of a task ended at each queue in the last hours: what tells a queue at fault from a task at fault
CREATE TABLE broker.task_ends (
    jeditaskid bigint NOT NULL,
    queue text NOT NULL,
    hour_number bigint NOT NULL,
    finished bigint NOT NULL,
    failed bigint NOT NULL,
    PRIMARY KEY (jeditaskid, queue, hour_number)
);

-- the ends that were folded within the overlap, so that each counts once
CREATE TABLE broker.folded_ends (
    pandaid bigint NOT NULL,
    attemptnr integer NOT NULL,
    modificationtime timestamp NOT NULL,
    PRIMARY KEY (pandaid, attemptnr)
);
CREATE INDEX folded_ends_modificationtime_idx ON broker.folded_ends (modificationtime);

CREATE TABLE broker.outcomes_folded (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    folded_until timestamp NOT NULL
);
