-- Notifications: incidents, the outbox of messages about them, and who wants to be told of a task.

CREATE TABLE broker.incidents (
    id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('alarm', 'reason', 'task')),
    code text NOT NULL,
    about text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
    sentence text NOT NULL,
    page text NOT NULL,
    began_at timestamptz NOT NULL,
    opened_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    resolved_at timestamptz,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX incidents_open_idx ON broker.incidents (kind, code, about) WHERE resolved_at IS NULL;
CREATE INDEX incidents_resolved_at_idx ON broker.incidents (resolved_at);
COMMENT ON TABLE broker.incidents IS 'what rules of notifications are about: one row from when it begins until it is over';

-- state: waiting; delivered; dropped, for it was over before it was told or its channel is gone; given_up after many tries.
CREATE TABLE broker.notifications (
    id bigint GENERATED ALWAYS AS IDENTITY,
    incident uuid NOT NULL REFERENCES broker.incidents ON DELETE CASCADE,
    event text NOT NULL CHECK (event IN ('opened', 'resolved')),
    channel text NOT NULL,
    address text NOT NULL,
    rule text NOT NULL,
    planned_at timestamptz NOT NULL,
    not_before timestamptz NOT NULL,
    tries integer NOT NULL,
    state text NOT NULL CHECK (state IN ('waiting', 'delivered', 'dropped', 'given_up')),
    ended_at timestamptz,
    detail text,
    PRIMARY KEY (id),
    UNIQUE (incident, event, channel, address)
);
CREATE INDEX notifications_waiting_idx ON broker.notifications (not_before) WHERE state = 'waiting';
CREATE INDEX notifications_ended_at_idx ON broker.notifications (ended_at);
COMMENT ON COLUMN broker.notifications.address IS 'of a subscriber, to whom the mail channel sends; empty: those of the channel';

CREATE TABLE broker.task_subscriptions (
    id bigint GENERATED ALWAYS AS IDENTITY,
    jeditaskid bigint NOT NULL,
    channel text NOT NULL,
    address text NOT NULL,
    subscribed_at timestamptz NOT NULL,
    subscribed_by text NOT NULL,
    told_waits_at timestamptz,
    ended_at timestamptz,
    ended_because text,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX task_subscriptions_open_idx ON broker.task_subscriptions (jeditaskid, channel, address)
    WHERE ended_at IS NULL;
CREATE INDEX task_subscriptions_ended_at_idx ON broker.task_subscriptions (ended_at);
