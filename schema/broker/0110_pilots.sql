-- Pilots of an installation of its own: how often they ask, what the jobs of a task write, and the ends of their logs.

-- Requests by queue, method and node in steps of five minutes; sitedata is counted from them.
CREATE TABLE broker.pilot_requests (
    panda_queue varchar(128) NOT NULL,
    method text NOT NULL CHECK (method IN ('getjob', 'updatejob', 'nojob')),
    node varchar(128) NOT NULL,
    step timestamptz NOT NULL,
    requests bigint NOT NULL,
    PRIMARY KEY (step, panda_queue, method, node)
);

-- The files that each job of a task writes. ${PANDAID} in lfn is replaced by the number of the job.
CREATE TABLE broker.task_outputs (
    jeditaskid bigint NOT NULL,
    position integer NOT NULL,
    datasetid bigint NOT NULL,
    type text NOT NULL CHECK (type IN ('output', 'log')),
    lfn varchar(256) NOT NULL,
    scope varchar(30) NOT NULL,
    PRIMARY KEY (jeditaskid, position)
);

CREATE TABLE broker.pilot_logs (
    pandaid bigint NOT NULL,
    attemptnr smallint NOT NULL,
    reported_at timestamptz NOT NULL,
    text varchar(1024) NOT NULL,
    PRIMARY KEY (pandaid, attemptnr)
);
CREATE INDEX pilot_logs_reported_at_idx ON broker.pilot_logs (reported_at);

-- What the payload is called with, for the file that stands for its job in a task of many jobs.
CREATE TABLE broker.file_arguments (
    jeditaskid bigint NOT NULL,
    fileid bigint NOT NULL,
    arguments text NOT NULL,
    PRIMARY KEY (jeditaskid, fileid)
);
