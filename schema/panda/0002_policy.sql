-- Configuration, shares, work queues and resource types.

CREATE TABLE doma_panda.config (
    app varchar(64) NOT NULL,
    component varchar(64) NOT NULL,
    key varchar(64) NOT NULL,
    value varchar(256),
    type varchar(64),
    vo varchar(32) NOT NULL,
    descr varchar(256),
    value_json jsonb,
    PRIMARY KEY (app, component, key, vo)
);

CREATE TABLE doma_panda.global_shares (
    name varchar(32) NOT NULL,
    value smallint,
    parent varchar(32),
    prodsourcelabel varchar(100),
    workinggroup varchar(100),
    campaign varchar(100),
    processingtype varchar(100),
    transpath varchar(128),
    rtype varchar(32),
    vo varchar(32),
    queue_id integer,
    throttled char(1),
    PRIMARY KEY (name)
);

CREATE TABLE doma_panda.jedi_work_queue (
    queue_id integer NOT NULL,
    queue_name varchar(32),
    queue_type varchar(32),
    vo varchar(32),
    status varchar(64),
    partitionid integer,
    stretchable smallint,
    queue_share smallint,
    queue_order integer,
    criteria varchar(256),
    variables varchar(256),
    queue_function varchar(32),
    PRIMARY KEY (queue_id)
);

CREATE TABLE doma_panda.resource_types (
    resource_name varchar(56) NOT NULL,
    mincore integer,
    maxcore integer,
    minrampercore integer,
    maxrampercore integer,
    PRIMARY KEY (resource_name)
);

CREATE TABLE doma_panda.jedi_process_lock (
    vo varchar(16) NOT NULL,
    prodsourcelabel varchar(20) NOT NULL,
    cloud varchar(10) NOT NULL,
    workqueue_id integer NOT NULL,
    resource_type varchar(56) NOT NULL,
    component varchar(64) NOT NULL,
    lockedby varchar(40),
    lockedtime timestamp,
    PRIMARY KEY (vo, prodsourcelabel, workqueue_id, cloud, resource_type, component)
);
