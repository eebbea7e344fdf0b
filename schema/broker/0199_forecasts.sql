-- When work will start: what was told, from what, and what came of it. The agent "forecasts" writes it.

CREATE TABLE broker.forecasts (
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CHECK (kind IN ('queue', 'task', 'task_kind')),
    subject text NOT NULL,
    cell text NOT NULL,
    situation text NOT NULL,
    made_at timestamptz NOT NULL,
    p10_s double precision,
    p50_s double precision,
    p90_s double precision,
    horizon_s double precision NOT NULL,
    ahead_s double precision,
    backlog_s double precision,
    recent_s double precision,
    age_s double precision,
    rollout_s double precision,
    n integer NOT NULL,
    usual_s double precision,
    unknown text NOT NULL,
    status text NOT NULL,
    status_since timestamptz NOT NULL,
    is_newest boolean NOT NULL,
    is_judged boolean NOT NULL,
    tracked bigint,
    outcome text CHECK (outcome IN ('started', 'gone', 'late')),
    waited_s double precision,
    resolved_at timestamptz,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX forecasts_newest_idx ON broker.forecasts (kind, subject) WHERE is_newest;
CREATE INDEX forecasts_subject_idx ON broker.forecasts (kind, subject, made_at);
CREATE INDEX forecasts_made_at_idx ON broker.forecasts (made_at);
CREATE INDEX forecasts_open_idx ON broker.forecasts (kind, made_at) WHERE is_judged AND outcome IS NULL;
COMMENT ON TABLE broker.forecasts IS 'the newest forecast of each subject, and those that are judged: one an hour';
COMMENT ON COLUMN broker.forecasts.p90_s IS 'null: not known, unknown says why; infinite: later than the horizon';
COMMENT ON COLUMN broker.forecasts.ahead_s IS 'like those below it, what was known then; null: not known';
COMMENT ON COLUMN broker.forecasts.tracked IS 'the job or task by which it is judged: the first that came afterwards';
COMMENT ON COLUMN broker.forecasts.outcome IS 'null: still open; gone: ended without a start; late: not within the horizon';
