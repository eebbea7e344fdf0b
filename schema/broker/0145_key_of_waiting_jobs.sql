-- Waiting jobs are written in the order in which matchers look for them, so one index in that order costs little, and one by
-- job, whose entries go all over it, more than all else: it made two thirds of the time in which a million jobs are put into
-- task queues. Nobody looks for a job here: which job is in which task queue is asked of all jobs of a place at once. That no
-- job is there twice does not rest on an index: one process at a time adds rows (it holds a lock), for jobs that have none,
-- and who takes a row gets its job only while that is activated.
--
-- No other statement reads or writes the table meanwhile: a second for a million jobs.
ALTER TABLE broker.waiting_jobs DROP CONSTRAINT waiting_jobs_pkey, ADD PRIMARY KEY (task_queue, priority, position);
DROP INDEX broker.waiting_jobs_order_idx;
