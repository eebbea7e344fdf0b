-- What was decided, on which snapshot and tuning, and why.

CREATE TABLE broker.decisions (
    id bigserial PRIMARY KEY,
    agent_run bigint,
    jeditaskid bigint NOT NULL,
    datasetid bigint,
    ramcount double precision,
    brokerage text NOT NULL,
    outcome text NOT NULL,
    reason text,
    decided_at timestamptz NOT NULL,
    snapshot text,
    tuning bigint,
    seed bigint,
    engine text,
    funnel jsonb,
    candidates jsonb,
    rejected jsonb,
    assigned jsonb,
    notes jsonb,
    work bytea,
    pending_until timestamptz
);
CREATE INDEX decisions_task_idx ON broker.decisions (jeditaskid, decided_at DESC);
CREATE INDEX decisions_run_idx ON broker.decisions (agent_run);
CREATE INDEX decisions_decided_at_idx ON broker.decisions (decided_at);
