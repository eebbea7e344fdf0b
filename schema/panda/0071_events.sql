-- Event ranges of the event service: kept with a scenario, decided about by nobody here.

CREATE TABLE doma_panda.jedi_events (
    jeditaskid bigint NOT NULL,
    pandaid bigint NOT NULL,
    fileid bigint NOT NULL,
    job_processid bigint NOT NULL,
    datasetid bigint,
    status smallint,
    def_min_eventid bigint,
    def_max_eventid bigint,
    processed_upto_eventid bigint,
    attemptnr smallint,
    objstore_id bigint,
    event_offset bigint,
    is_jumbo smallint,
    ziprow_id bigint,
    file_not_deleted char(1),
    error_code integer,
    path_convention smallint,
    error_diag varchar(500),
    PRIMARY KEY (jeditaskid, pandaid, fileid, job_processid)
);
CREATE INDEX jedi_events_pandaid_status_idx ON doma_panda.jedi_events (pandaid, status);
