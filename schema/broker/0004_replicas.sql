-- The replica catalogue: which data is where, until an agent fills it from Rucio.

CREATE TABLE broker.dataset_replicas (
    scope text NOT NULL,
    name text NOT NULL,
    rse text NOT NULL,
    is_tape boolean,
    available_files bigint,
    total_files bigint,
    available_bytes bigint,
    total_bytes bigint,
    state text,
    PRIMARY KEY (scope, name, rse)
);
CREATE INDEX dataset_replicas_name_idx ON broker.dataset_replicas (name);

CREATE TABLE broker.file_replicas (
    scope text NOT NULL,
    name text NOT NULL,
    rse text NOT NULL,
    PRIMARY KEY (scope, name, rse)
);

CREATE TABLE broker.dataset_metadata (
    scope text NOT NULL,
    name text NOT NULL,
    did_type text,
    length bigint,
    is_open boolean,
    rule_groupings jsonb,
    PRIMARY KEY (scope, name)
);

CREATE TABLE broker.container_contents (
    scope text NOT NULL,
    name text NOT NULL,
    child_scope text NOT NULL,
    child_name text NOT NULL,
    PRIMARY KEY (scope, name, child_scope, child_name)
);

CREATE TABLE broker.rucio_account_usage (
    account text NOT NULL,
    rse_expression text NOT NULL,
    bytes bigint,
    bytes_limit bigint,
    PRIMARY KEY (account, rse_expression)
);

CREATE TABLE broker.rucio_local_usage (
    account text NOT NULL,
    rse text NOT NULL,
    bytes bigint,
    bytes_limit bigint,
    PRIMARY KEY (account, rse)
);
