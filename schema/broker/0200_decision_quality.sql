-- What each cycle of a job brokerage cost beside the best placement of the same jobs, by the linear program over the same
-- facts. The agent "decision_quality" writes a row for a cycle and VO; no decision reads it.

CREATE TABLE broker.decision_quality (
    brokerage text NOT NULL,
    decided_at timestamptz NOT NULL,
    tuning integer NOT NULL,
    vo text NOT NULL,
    placer text NOT NULL,               -- ours: the decisions; panda: what PanDA placed of the same chunks
    snapshot text NOT NULL,
    measured_at timestamptz NOT NULL,
    measure_s real NOT NULL,
    state text NOT NULL,                -- measured; nothing to place; time_limit; unreadable
    jobs bigint NOT NULL,
    cost_hs06h double precision NOT NULL,
    best_hs06h double precision NOT NULL,
    left_hs06h double precision NOT NULL, -- of best_hs06h, for jobs that have no place in any case
    gb double precision NOT NULL,
    best_gb double precision NOT NULL,
    input_gb double precision NOT NULL,
    details jsonb NOT NULL,
    PRIMARY KEY (brokerage, decided_at, tuning, vo, placer)
);
CREATE INDEX decision_quality_decided_at ON broker.decision_quality (decided_at);
