-- For which instant each summary of worker nodes was last made. One without a row has no age that could be known.

CREATE TABLE broker.summary_refreshes (
    summary text NOT NULL,
    refreshed_for timestamptz NOT NULL,
    PRIMARY KEY (summary)
);
