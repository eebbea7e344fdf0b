-- How many jobs started in each hour, as the agent "outcomes" counts them.
CREATE TABLE broker.job_starts (
    hour timestamptz NOT NULL,
    started bigint NOT NULL,
    PRIMARY KEY (hour)
);
