-- PanDA's retry rules and classes of errors, as its own installations have them. No rows: without rules none acts.

CREATE TABLE doma_panda.retryactions (
    retryaction_id bigint NOT NULL,
    retry_action varchar(50),
    active char(1) DEFAULT 'Y',
    retry_description varchar(250),
    PRIMARY KEY (retryaction_id)
);

CREATE TABLE doma_panda.retryerrors (
    retryerror_id bigint NOT NULL,
    errorsource varchar(256),
    errorcode bigint,
    active char(1) DEFAULT 'Y',
    retryaction bigint,
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
    error_source varchar(30),
    error_code bigint,
    error_diag varchar(256),
    description varchar(250),
    error_class varchar(30),
    active char(1) DEFAULT 'N',
    reg_date timestamp,
    PRIMARY KEY (id)
);
