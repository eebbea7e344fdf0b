-- What jobs, machines and other systems tell us: Machine/Job Features that pilots report, and jobs that came as SSS Job
-- Objects.

-- The last report of each pilot. Values are those of the keys, NULL where the site does not say.
CREATE TABLE broker.feature_reports (
    queue text NOT NULL,
    reporter text NOT NULL,
    reported_at timestamptz NOT NULL,
    cores bigint,
    corepower double precision,
    wall_limit_s bigint,
    max_rss_bytes bigint,
    scratch_limit_bytes bigint,
    scratch_is_shared boolean NOT NULL DEFAULT false,
    total_cpu bigint,
    jobstart_s bigint,
    shutdown_at timestamptz,
    keys jsonb NOT NULL,
    problems jsonb NOT NULL,
    PRIMARY KEY (queue, reporter)
);
CREATE INDEX feature_reports_reported_at_idx ON broker.feature_reports (reported_at);

-- What the reports of a queue amount to; NULL where too few pilots said anything. Memory and disk are those of one core.
CREATE TABLE broker.queue_features (
    queue text NOT NULL,
    computed_at timestamptz NOT NULL,
    pilots bigint NOT NULL,
    corepower double precision,
    maxtime_s double precision,
    maxrss_per_core_mb double precision,
    maxwdir_per_core_mb double precision,
    draining_pilots bigint NOT NULL,
    shutdown_at timestamptz,
    PRIMARY KEY (queue)
);

-- Under which names the job or task is known where it came from. kind: job or task; id: pandaid or jeditaskid.
CREATE TABLE broker.sss_identity (
    kind text NOT NULL CHECK (kind IN ('job', 'task')),
    id bigint NOT NULL,
    job_id text,
    group_id text,
    global_id text,
    fileid bigint,
    PRIMARY KEY (kind, id, job_id)
);
CREATE INDEX sss_identity_job_idx ON broker.sss_identity (job_id);

-- What has no column of PanDA's: elements by path, in the order of the document. job_id tells the jobs of a task apart.
CREATE TABLE broker.sss_property (
    kind text NOT NULL CHECK (kind IN ('job', 'task')),
    id bigint NOT NULL,
    job_id text NOT NULL DEFAULT '',
    position bigint NOT NULL,
    path text NOT NULL,
    attributes jsonb NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (kind, id, job_id, position)
);

-- The ways in which a task may be run, the one wanted most first. Cores of a slot: bounds included, NULL for none.
CREATE TABLE broker.task_alternatives (
    jeditaskid bigint NOT NULL,
    position bigint NOT NULL,
    min_cores bigint,
    max_cores bigint,
    without_cores jsonb NOT NULL DEFAULT '[]',
    memory_mb bigint,
    disk_mb bigint,
    wall_s bigint,
    PRIMARY KEY (jeditaskid, position)
);

-- File ids of pseudo-inputs, far above those that PanDA has given out.
CREATE SEQUENCE broker.pseudo_file_seq START WITH 1000000000000;
