-- Calls of the plug-in for PanDA JEDI, by hour: what it decided, and why it fell back to PanDA's own brokers.

CREATE TABLE broker.plugin_calls (
    hour timestamptz NOT NULL,
    brokerage text NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    calls bigint NOT NULL,
    PRIMARY KEY (hour, brokerage, outcome, reason)
);
