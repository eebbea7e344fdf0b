-- Own retry rules, failed jobs that rules have still to look at, and what rules did or would have done.

CREATE TABLE broker.retry_rules (
    id bigint GENERATED ALWAYS AS IDENTITY,
    errorsource text NOT NULL,
    errorcode bigint NOT NULL,
    retry_action text NOT NULL,
    active boolean NOT NULL,
    errordiag text,
    parameters text,
    architecture text,
    release text,
    workqueue_id integer,
    expiration_date timestamptz,
    added_at timestamptz NOT NULL,
    added_by text NOT NULL,
    reason text NOT NULL,
    removed_at timestamptz,
    removed_by text,
    removed_because text,
    PRIMARY KEY (id)
);
COMMENT ON COLUMN broker.retry_rules.active IS 'false: passive, what the rule would do is only recorded';

CREATE TABLE broker.failed_jobs (
    pandaid bigint NOT NULL,
    failed_at timestamptz NOT NULL,
    PRIMARY KEY (pandaid)
);
COMMENT ON TABLE broker.failed_jobs IS 'jobs of ours that failed, until the agent retries has looked at them';

CREATE TABLE broker.retry_actions (
    id bigint GENERATED ALWAYS AS IDENTITY,
    acted_at timestamptz NOT NULL,
    agent_run bigint,
    pandaid bigint NOT NULL,
    attemptnr integer NOT NULL,
    jeditaskid bigint NOT NULL,
    queue text,
    rule text NOT NULL,
    rules_version text NOT NULL,
    errorsource text NOT NULL,
    errorcode bigint NOT NULL,
    action text NOT NULL,
    active boolean NOT NULL,
    target text NOT NULL CHECK (target IN ('files', 'task', 'none')),
    rows_changed integer NOT NULL,
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    reason text NOT NULL,
    evidence jsonb NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX retry_actions_task_idx ON broker.retry_actions (jeditaskid, acted_at);
CREATE INDEX retry_actions_pandaid_idx ON broker.retry_actions (pandaid);
CREATE INDEX retry_actions_acted_at_idx ON broker.retry_actions (acted_at);
