-- Columns as wide as PanDA's. Source: panda-database, pg_PANDA_TABLE.

ALTER TABLE doma_panda.jedi_process_lock ALTER COLUMN vo TYPE varchar(32);
ALTER TABLE doma_panda.jedi_process_lock ALTER COLUMN component TYPE varchar(56);
ALTER TABLE doma_panda.jedi_process_lock ALTER COLUMN lockedby TYPE varchar(56);
ALTER TABLE doma_panda.harvester_workers ALTER COLUMN jobtype TYPE varchar(52);
ALTER TABLE doma_panda.harvester_worker_stats ALTER COLUMN jobtype TYPE varchar(52);
ALTER TABLE doma_panda.task_attempts ALTER COLUMN attemptnr TYPE integer;
ALTER TABLE doma_panda.mv_jobsactive4_stats ALTER COLUMN currentpriority TYPE bigint;

ALTER TABLE doma_panda.filestable4 ALTER COLUMN lfn TYPE varchar(4000);
ALTER TABLE doma_panda.filestable4 ALTER COLUMN md5sum TYPE varchar(36);
ALTER TABLE doma_pandaarch.filestable_arch ALTER COLUMN lfn TYPE varchar(4000);
ALTER TABLE doma_pandaarch.filestable_arch ALTER COLUMN md5sum TYPE varchar(36);

-- Leaks were kept as text; what is no number was never one of PanDA's.
CREATE FUNCTION pg_temp.number_in(given text) RETURNS numeric LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN given ~ '^-?[0-9]+([.][0-9]+)?$' THEN given::numeric END;

ALTER TABLE doma_panda.jobsdefined4 ALTER COLUMN hs06 TYPE bigint;
ALTER TABLE doma_panda.jobsdefined4 ALTER COLUMN memory_leak TYPE bigint USING pg_temp.number_in(memory_leak);
ALTER TABLE doma_panda.jobsdefined4 ALTER COLUMN memory_leak_x2 TYPE numeric(14, 3) USING pg_temp.number_in(memory_leak_x2);
ALTER TABLE doma_panda.jobsactive4 ALTER COLUMN hs06 TYPE bigint;
ALTER TABLE doma_panda.jobsactive4 ALTER COLUMN memory_leak TYPE bigint USING pg_temp.number_in(memory_leak);
ALTER TABLE doma_panda.jobsactive4 ALTER COLUMN memory_leak_x2 TYPE numeric(14, 3) USING pg_temp.number_in(memory_leak_x2);
ALTER TABLE doma_panda.jobsarchived4 ALTER COLUMN hs06 TYPE bigint;
ALTER TABLE doma_panda.jobsarchived4 ALTER COLUMN memory_leak TYPE bigint USING pg_temp.number_in(memory_leak);
ALTER TABLE doma_panda.jobsarchived4 ALTER COLUMN memory_leak_x2 TYPE numeric(14, 3) USING pg_temp.number_in(memory_leak_x2);
ALTER TABLE doma_pandaarch.jobsarchived ALTER COLUMN hs06 TYPE bigint;
ALTER TABLE doma_pandaarch.jobsarchived ALTER COLUMN memory_leak TYPE bigint USING pg_temp.number_in(memory_leak);
ALTER TABLE doma_pandaarch.jobsarchived ALTER COLUMN memory_leak_x2 TYPE numeric(14, 3) USING pg_temp.number_in(memory_leak_x2);
