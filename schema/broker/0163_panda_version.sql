-- Alongside PanDA: the version of PanDA's schema when ours was installed or upgraded last; NULL where PanDA did not say.

CREATE TABLE broker.panda_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version text,
    recorded_at timestamptz NOT NULL DEFAULT now()
);
