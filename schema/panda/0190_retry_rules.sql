-- PanDA's retry rules and classes of errors, as its own installations have them. No rows: without rules none acts.

CREATE TABLE doma_panda.retryactions (
    retryaction_id bigint NOT NULL,
    retry_action varchar(50) NOT NULL,
    active char(1) NOT NULL DEFAULT 'Y',
    retry_description varchar(250),
    PRIMARY KEY (retryaction_id)
);

CREATE TABLE doma_panda.retryerrors (
    retryerror_id bigint NOT NULL,
    errorsource varchar(256) NOT NULL,
    errorcode bigint NOT NULL,
    active char(1) NOT NULL DEFAULT 'Y',
    retryaction bigint NOT NULL,
    errordiag varchar(256),
    parameters varchar(256),
    architecture varchar(256),
    release varchar(64),
    workqueue_id integer,
    description varchar(250),
    expiration_date timestamp,
    PRIMARY KEY (retryerror_id)
);

CREATE TABLE doma_panda.error_classification (
    id bigint NOT NULL,
    error_source varchar(256) NOT NULL,
    error_code bigint NOT NULL,
    error_diag varchar(256) NOT NULL,
    description varchar(250),
    error_class varchar(30) NOT NULL,
    active char(1) NOT NULL DEFAULT 'N',
    reg_date timestamp,
    PRIMARY KEY (id)
);
