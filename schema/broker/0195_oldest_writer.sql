-- The oldest release that may write under this schema. A later step that does more than add says in its first comment
-- `-- oldest writer: RELEASE`, and the upgrade puts that here in the same transaction. A release writes if it knows the step
-- that is named here, or is as new as the release; else it only reads. Each transaction that writes looks at this row.
CREATE TABLE broker.oldest_writer (
    only_row boolean NOT NULL DEFAULT true CHECK (only_row),
    release text NOT NULL,
    part text NOT NULL,
    version integer NOT NULL,
    PRIMARY KEY (only_row)
);
INSERT INTO broker.oldest_writer (release, part, version) VALUES ('1.0.0', 'broker', 195);
