-- Jobs that are activated by whatever program, so that nobody has to look for them among all jobs. The agent activation lets
-- its own jobs wait in the transaction in which it moves them, and says so by a setting of the transaction.
CREATE FUNCTION broker.note_activated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO broker.activated_jobs (pandaid) VALUES (NEW.pandaid);
    RETURN NULL;
END $$;
CREATE TRIGGER note_added AFTER INSERT ON doma_panda.jobsactive4 FOR EACH ROW
    WHEN (NEW.jobstatus = 'activated' AND current_setting('gridbroker.activates', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION broker.note_activated();
CREATE TRIGGER note_activated AFTER UPDATE OF jobstatus ON doma_panda.jobsactive4 FOR EACH ROW
    WHEN (NEW.jobstatus = 'activated' AND OLD.jobstatus IS DISTINCT FROM 'activated'
        AND current_setting('gridbroker.activates', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION broker.note_activated();
