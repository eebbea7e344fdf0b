-- What jobs tell about themselves (job-to-machine): the last record of each job, as its pilot passed it on.

CREATE TABLE broker.job_status_reports (
    pandaid bigint NOT NULL,
    reported_at timestamptz NOT NULL,
    allocated_cpu bigint,
    record jsonb NOT NULL,
    PRIMARY KEY (pandaid)
);
CREATE INDEX job_status_reports_reported_at_idx ON broker.job_status_reports (reported_at);
