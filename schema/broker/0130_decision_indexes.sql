-- Smaller indexes of decisions. A day has few decisions about one task, and those of one day are read together: its
-- number alone finds them, and entries of one number share their key. No query looks for a run.
CREATE INDEX decisions_jeditaskid_idx ON broker.decisions (jeditaskid);
DROP INDEX broker.decisions_task_idx;
DROP INDEX broker.decisions_run_idx;
