-- The VO of the installation, which counts wherever none is named. No row: PanDA's own, atlas.
CREATE TABLE broker.installation_vo (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    vo varchar(32) NOT NULL,
    set_at timestamptz NOT NULL,
    set_by text NOT NULL
);
