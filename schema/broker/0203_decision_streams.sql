-- How far the decisions that a channel of notifications publishes have gone out; a row a channel.
--   position       all stored decisions up to this number were sent, or are not of the channel's filter
--   started_at     when the channel began to publish: from the position of then on
--   read_at        when decisions were last looked for
--   sent, sent_at  how many went out, and when the last one did
--   tries          in vain since the last one that got through; not_before: when it is tried again
--   failing_since  when the first of them was; detail: why the last failed
--   unknown        decisions of which share or VO are not stored, so that the filter left them out
--   lost, lost_at  at most so many decisions were cleared away before they were sent, and when that was last noticed
--   lost_untold    those of them that no message that got through has said
CREATE TABLE broker.decision_streams (
    channel text NOT NULL,
    position bigint NOT NULL,
    started_at timestamptz NOT NULL,
    read_at timestamptz NOT NULL,
    sent bigint NOT NULL DEFAULT 0,
    sent_at timestamptz,
    tries integer NOT NULL DEFAULT 0,
    not_before timestamptz,
    failing_since timestamptz,
    detail text,
    unknown bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    lost_at timestamptz,
    lost_untold bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (channel)
);
