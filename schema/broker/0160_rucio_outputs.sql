-- Outputs of finished jobs into Rucio, written by the agent rucio_output: an outbox that is filled in the transaction that ends
-- the jobs, so that a crash on either side neither loses a file nor registers one twice.

-- Datasets that the agent has taken on: one row for each output or log dataset of a task, with site ''. Where the task writes
-- into a container (its name ends with /), that row is a template, and each site has a dataset of its own, NAME.NUMBER.
--   state: template; planned, not made at Rucio yet; open; closed; empty, the task ended and wrote nothing.
--   files, bytes: when it was closed.
--   failures: tries in a row that failed, the last for reason (code in reason_code); next_try_at: not before then.
CREATE TABLE broker.rucio_datasets (
    jeditaskid bigint NOT NULL,
    datasetid bigint NOT NULL,
    site varchar(128) NOT NULL,
    scope varchar(30) NOT NULL,
    name varchar(255) NOT NULL,
    container_scope varchar(30),
    container_name varchar(255),
    state text NOT NULL CHECK (state IN ('template', 'planned', 'open', 'closed', 'empty')),
    files bigint,
    bytes bigint,
    failures integer NOT NULL DEFAULT 0,
    reason_code text,
    reason text,
    next_try_at timestamptz NOT NULL,
    made_at timestamptz,
    closed_at timestamptz,
    PRIMARY KEY (jeditaskid, datasetid, site)
);
CREATE INDEX rucio_datasets_at_work_idx ON broker.rucio_datasets (next_try_at) WHERE state IN ('planned', 'open');

-- The outbox: files that finished jobs have reported, in datasets that were taken on. rse is where the pilot was told to write.
--   state: queued; registered; refused, for reason; left_out, an operator said that it is not to be registered.
CREATE TABLE broker.rucio_files (
    jeditaskid bigint NOT NULL,
    datasetid bigint NOT NULL,
    fileid bigint NOT NULL,
    site varchar(128) NOT NULL,
    pandaid bigint,
    scope varchar(30) NOT NULL,
    lfn varchar(256) NOT NULL,
    rse varchar(250),
    fsize bigint,
    checksum varchar(36),
    guid varchar(64),
    nevents bigint,
    state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'registered', 'refused', 'left_out')),
    reason_code text,
    reason text,
    queued_at timestamptz NOT NULL,
    done_at timestamptz,
    PRIMARY KEY (jeditaskid, datasetid, fileid)
);
CREATE INDEX rucio_files_queued_idx ON broker.rucio_files (jeditaskid, datasetid, site, fileid) WHERE state = 'queued';
CREATE INDEX rucio_files_waiting_idx ON broker.rucio_files (queued_at) WHERE state = 'queued';
CREATE INDEX rucio_files_refused_idx ON broker.rucio_files (jeditaskid, datasetid) WHERE state = 'refused';
