-- Jobs that wait are compared with what is true in the order of their numbers, some each cycle: up to which was compared.
ALTER TABLE broker.task_queue_plan ADD COLUMN compared_to bigint NOT NULL DEFAULT -1;

-- To find the rows of a range of numbers. It has one entry for some pages, so that it costs nothing where rows are added;
-- pages whose entry is not made yet are read.
CREATE INDEX waiting_jobs_number_idx ON broker.waiting_jobs USING brin (pandaid) WITH (pages_per_range = 16, autosummarize = on);
