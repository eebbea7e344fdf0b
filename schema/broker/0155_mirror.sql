-- Mode mirrored: PanDA's tables are copies, made by another program; when, from how many rows, and what went wrong.

CREATE TABLE broker.mirror_parts (
    part text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    claimed_until timestamptz NOT NULL
);

CREATE TABLE broker.mirror_copies (
    name text PRIMARY KEY,
    part text NOT NULL,
    read_at timestamptz,
    row_count bigint NOT NULL DEFAULT 0,
    read_s double precision,
    sha256 text,
    lacking text[] NOT NULL DEFAULT '{}',
    failed_at timestamptz,
    failures integer NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT ''
);
