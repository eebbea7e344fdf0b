-- The machine that a job comes from, under PanDA's name. Source: panda-database, pg_PANDA_TABLE.

ALTER TABLE doma_panda.jobsdefined4 RENAME COLUMN creatorhost TO creationhost;
ALTER TABLE doma_panda.jobsactive4 RENAME COLUMN creatorhost TO creationhost;
ALTER TABLE doma_panda.jobsarchived4 RENAME COLUMN creatorhost TO creationhost;
ALTER TABLE doma_pandaarch.jobsarchived RENAME COLUMN creatorhost TO creationhost;
