-- Input files of jobs that failed lately for no fault of the payload, and where: their next attempt goes elsewhere. The agent
-- "outcomes" notes them as it folds the ends, and forgets them after hours.

CREATE TABLE broker.failed_inputs (
    jeditaskid bigint NOT NULL,
    datasetid bigint NOT NULL,
    fileid bigint NOT NULL,
    queue text NOT NULL,
    node text NOT NULL,
    failed_at timestamptz NOT NULL,
    PRIMARY KEY (jeditaskid, datasetid, fileid, queue, node)
);
CREATE INDEX failed_inputs_failed_at_idx ON broker.failed_inputs (failed_at);
