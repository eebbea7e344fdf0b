-- Alarms that somebody looks at: they stay listed, below the others, until then. What was taken back stays on record.
CREATE TABLE broker.acknowledged_alarms (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    code text NOT NULL,
    about text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
    reason text NOT NULL,
    editor text NOT NULL,
    set_at timestamptz NOT NULL,
    until timestamptz NOT NULL,
    ended_at timestamptz,
    ended_by text,
    CHECK (until > set_at)
);
COMMENT ON COLUMN broker.acknowledged_alarms.about IS 'what the alarm is about: a source, an agent, a task, a queue';
COMMENT ON COLUMN broker.acknowledged_alarms.severity IS 'that it had then: a graver alarm is a new one';
CREATE UNIQUE INDEX acknowledged_alarms_held_idx ON broker.acknowledged_alarms (code, about) WHERE ended_at IS NULL;
