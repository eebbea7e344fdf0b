-- Services that are alive: one row for each process of `broker serve`, renewed while it runs.

CREATE TABLE broker.services (
    holder text PRIMARY KEY,
    host text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    agents jsonb NOT NULL
);
