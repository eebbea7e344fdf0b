-- Changes of the tuning that were refused since they would have moved more jobs than whoever made them allowed.
CREATE TABLE broker.gdpconfig_refusals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    refused_at timestamptz NOT NULL,
    editor text NOT NULL,
    reason text NOT NULL,
    attempt text NOT NULL CHECK (attempt IN ('set', 'canary')),
    key text NOT NULL,
    vo text NOT NULL,
    value jsonb NOT NULL,
    share double precision NOT NULL,
    code text NOT NULL,
    run bigint,
    jobs_moved bigint,
    jobs bigint,
    most_moved bigint NOT NULL
);
CREATE INDEX gdpconfig_refusals_key_idx ON broker.gdpconfig_refusals (key, id DESC);
COMMENT ON TABLE broker.gdpconfig_refusals IS 'a row a key; kept like the history of the tuning';
COMMENT ON COLUMN broker.gdpconfig_refusals.share IS 'of the tasks that the value was for; 1: all';
COMMENT ON COLUMN broker.gdpconfig_refusals.run IS 'whose preview said so; null: none, or a command looked itself';
COMMENT ON COLUMN broker.gdpconfig_refusals.jobs_moved IS 'of the tasks that the value was for; null: nobody looked lately';
