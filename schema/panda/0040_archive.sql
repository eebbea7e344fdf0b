-- Finished jobs and their files when they are no longer looked at every minute: PanDA's archive. Beside PanDA it is theirs.

CREATE SCHEMA IF NOT EXISTS doma_pandaarch;
CREATE TABLE doma_pandaarch.jobsarchived (LIKE doma_panda.jobsarchived4, PRIMARY KEY (pandaid));
CREATE INDEX jobsarchived_task_idx ON doma_pandaarch.jobsarchived (jeditaskid);
CREATE INDEX jobsarchived_modificationtime_idx ON doma_pandaarch.jobsarchived (modificationtime);
CREATE TABLE doma_pandaarch.filestable_arch (LIKE doma_panda.filestable4, PRIMARY KEY (row_id));
CREATE INDEX filestable_arch_pandaid_idx ON doma_pandaarch.filestable_arch (pandaid);
