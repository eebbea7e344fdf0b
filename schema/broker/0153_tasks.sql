-- Tasks made from task parameters: what each of their jobs is called with, the numbers of their outputs, chains of tasks, and
-- submissions that come twice.

-- Numbers of tasks of an installation of its own: below 10,000,000 PanDA's clients take a number for one of a request.
CREATE SEQUENCE broker.task_id_seq START WITH 10000000;

-- Outputs with serial numbers: lfn has ${SN}, ${SN/P} or ${SN:04d}, and serialnr is the number that the next job takes (NULL:
-- the name has none). Numbers are taken when jobs are activated, all outputs of a job at once, and none is used again: not
-- where the job failed, either. streamname is that of the dataset: OUTPUT0, OUTPUT1, LOG0.
ALTER TABLE broker.task_outputs ADD COLUMN serialnr bigint;

-- What each job of a task is called with, with its placeholders, and how many of its jobs have a number: the next one is
-- numbered jobs_numbered + 1. seed_offset is added to it for ${RNDMSEED}, sn_offset for ${SN}. source_url is ${SURL}.
CREATE TABLE broker.task_templates (
    jeditaskid bigint NOT NULL,
    jobparamstemplate text NOT NULL,
    jobs_numbered bigint NOT NULL DEFAULT 0,
    sn_offset bigint NOT NULL DEFAULT 0,
    seed_offset bigint NOT NULL DEFAULT 0,
    source_url varchar(500),
    PRIMARY KEY (jeditaskid)
);

-- The number of a job among those of its task, given when it was activated.
CREATE TABLE broker.job_serial_numbers (
    pandaid bigint NOT NULL,
    jeditaskid bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (pandaid)
);

-- Input datasets whose contents are not complete yet: the agent task_input reads on. Rows go when the dataset is complete; the
-- task is registered until all its datasets have what they need to begin.
--   source: task, files that a task of this installation writes (jedi_datasets of type output or log, by name); rucio, files
--     that Rucio lists.
--   needs_parent: nothing is read before task parent_tid has ended well; it does not matter where it is false.
--   may_grow: the task begins with the first files, and takes those that come until the dataset is closed (the row of
--     jedi_datasets is mutable until then); else it begins when the dataset is closed and whole.
--   included, excluded: patterns of names, as JSON lists; skipped_files: left out in front of those that they let through.
--   most_files, most_events: of the primary input; events_a_file: of files of which nobody says any.
--   reason: why the last look found nothing to take.
CREATE TABLE broker.task_input_feeds (
    jeditaskid bigint NOT NULL,
    datasetid bigint NOT NULL,
    scope varchar(30) NOT NULL,
    name varchar(255) NOT NULL,
    source text NOT NULL CHECK (source IN ('task', 'rucio')),
    needs_parent boolean NOT NULL,
    may_grow boolean NOT NULL,
    included jsonb NOT NULL,
    excluded jsonb NOT NULL,
    skipped_files bigint NOT NULL,
    most_files bigint,
    most_events bigint,
    events_a_file bigint,
    maxattempt smallint,
    maxfailure smallint,
    first_event bigint NOT NULL,
    next_look_at timestamptz NOT NULL,
    reason text,
    PRIMARY KEY (jeditaskid, datasetid)
);
CREATE INDEX task_input_feeds_due_idx ON broker.task_input_feeds (next_look_at);

-- Submissions by the number that their client gave them: the same one again is the same task. digest is of what was submitted.
CREATE TABLE broker.task_requests (
    username varchar(128) NOT NULL,
    request varchar(128) NOT NULL,
    digest text NOT NULL,
    jeditaskid bigint NOT NULL,
    submitted_at timestamptz NOT NULL,
    PRIMARY KEY (username, request)
);
