-- A job changes its status and both times half a dozen times, and pilots confirm it every half hour. With these in indexes
-- each change writes an entry into all of them; without, and with some room in each page, the new row stays beside the old
-- one and no index is touched. No query looks for active jobs by time, and those that look by status name task or queue, or
-- read all jobs.
--
-- What stands in the way of others goes first, so that nobody holds what this waits for and waits for it. Nobody reads or
-- changes active jobs until both indexes are made: two seconds for a million jobs.
DROP INDEX doma_panda.jobsactive4_task_idx;
DROP INDEX doma_panda.jobsactive4_site_idx;
DROP INDEX doma_panda.jobsactive4_modificationtime_idx;
DROP INDEX doma_panda.jobsactive4_statechangetime_idx;
CREATE INDEX jobsactive4_task_idx ON doma_panda.jobsactive4 (jeditaskid);
CREATE INDEX jobsactive4_site_idx ON doma_panda.jobsactive4 (computingsite);
ALTER TABLE doma_panda.jobsactive4 SET (fillfactor = 90);
