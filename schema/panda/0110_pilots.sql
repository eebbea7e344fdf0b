-- What pilots and Harvester report. Source: panda-database, pg_PANDA_TABLE. Keys of partitioned tables are without the time.

CREATE TABLE doma_panda.job_output_report (
    pandaid bigint NOT NULL,
    attemptnr smallint NOT NULL,
    prodsourcelabel varchar(20),
    jobstatus varchar(15),
    timestamp timestamp,
    data text,
    lockedby varchar(56),
    lockedtime timestamp,
    jeditaskid bigint,
    PRIMARY KEY (pandaid, attemptnr)
);

CREATE TABLE doma_panda.metatable (
    pandaid bigint NOT NULL,
    modificationtime timestamp,
    metadata text,
    PRIMARY KEY (pandaid)
);

CREATE TABLE doma_panda.jobsdebug (
    pandaid bigint NOT NULL,
    stdout varchar(2048),
    PRIMARY KEY (pandaid)
);

CREATE TABLE doma_panda.harvester_instances (
    harvester_id varchar(50) NOT NULL,
    description varchar(200),
    starttime timestamp,
    owner varchar(100),
    hostname varchar(100),
    lastupdate timestamp,
    sw_version varchar(100),
    commit_stamp varchar(100),
    PRIMARY KEY (harvester_id)
);

CREATE TABLE doma_panda.harvester_rel_jobs_workers (
    harvesterid varchar(50) NOT NULL,
    workerid bigint NOT NULL,
    pandaid bigint NOT NULL,
    lastupdate timestamp,
    PRIMARY KEY (harvesterid, workerid, pandaid)
);
CREATE INDEX harvester_rel_jobs_workers_pandaid_idx ON doma_panda.harvester_rel_jobs_workers (pandaid);

ALTER TABLE doma_panda.jobsdefined4 ADD COLUMN pilottiming varchar(100);
ALTER TABLE doma_panda.jobsactive4 ADD COLUMN pilottiming varchar(100);
ALTER TABLE doma_panda.jobsarchived4 ADD COLUMN pilottiming varchar(100);
ALTER TABLE doma_pandaarch.jobsarchived ADD COLUMN pilottiming varchar(100);
ALTER TABLE doma_panda.jobsdefined4 ADD COLUMN jobexecutionid bigint;
ALTER TABLE doma_panda.jobsactive4 ADD COLUMN jobexecutionid bigint;
ALTER TABLE doma_panda.jobsarchived4 ADD COLUMN jobexecutionid bigint;
ALTER TABLE doma_pandaarch.jobsarchived ADD COLUMN jobexecutionid bigint;
