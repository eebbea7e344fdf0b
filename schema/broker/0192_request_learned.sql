-- What tasks were found to need, by their scouts and by what their jobs used, and what was made of it.

CREATE TABLE broker.request_learned (
    jeditaskid bigint NOT NULL,
    evaluated_at timestamptz NOT NULL,
    processingtype text NOT NULL,
    transformation text NOT NULL,
    release text NOT NULL,
    cores integer NOT NULL,
    ramunit text,
    finished integer NOT NULL,
    killed integer NOT NULL,
    scouts jsonb NOT NULL,
    p50_mb double precision,
    ask_mb double precision,
    low_mb double precision,
    high_mb double precision,
    unknown text NOT NULL,
    PRIMARY KEY (jeditaskid)
);
COMMENT ON COLUMN broker.request_learned.unknown IS 'why ask_mb is not known; empty where it is';
CREATE INDEX request_learned_kind_idx
    ON broker.request_learned (processingtype, transformation, release, cores, evaluated_at);
CREATE INDEX request_learned_evaluated_at_idx ON broker.request_learned (evaluated_at);

CREATE TABLE broker.request_changes (
    id bigint GENERATED ALWAYS AS IDENTITY,
    changed_at timestamptz NOT NULL,
    agent_run bigint,
    jeditaskid bigint NOT NULL,
    source text NOT NULL CHECK (source IN ('scouts', 'learned', 'kind')),
    active boolean NOT NULL,
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX request_changes_task_idx ON broker.request_changes (jeditaskid, changed_at);
CREATE INDEX request_changes_changed_at_idx ON broker.request_changes (changed_at);
