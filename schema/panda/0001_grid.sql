-- The grid as PanDA describes it: sites, queues, storages, links, workers, software, metrics.
-- Names and types are PanDA's; NOT NULL stands for keys only, so that any scenario loads.

CREATE TABLE doma_panda.site (
    site_name varchar(52) NOT NULL,
    role varchar(256),
    tier_level smallint,
    state varchar(52),
    PRIMARY KEY (site_name)
);

CREATE TABLE doma_panda.panda_site (
    panda_site_name varchar(52) NOT NULL,
    site_name varchar(52),
    storage_site_name varchar(52),
    default_ddm_endpoint varchar(52),
    is_local char(1),
    PRIMARY KEY (panda_site_name)
);

CREATE TABLE doma_panda.schedconfig_json (
    panda_queue varchar(50) NOT NULL,
    data json,
    last_update timestamp,
    PRIMARY KEY (panda_queue)
);

CREATE TABLE doma_panda.ddm_endpoint (
    ddm_endpoint_name varchar(52) NOT NULL,
    site_name varchar(52),
    ddm_spacetoken_name varchar(52),
    type varchar(20),
    is_tape varchar(1),
    space_total bigint,
    space_free bigint,
    space_used bigint,
    space_expired bigint,
    space_min_free bigint,
    space_unavailable bigint,
    space_timestamp timestamp,
    blacklisted char(1),
    blacklisted_write char(1),
    blacklisted_read char(1),
    detailed_status jsonb,
    PRIMARY KEY (ddm_endpoint_name)
);

CREATE TABLE doma_panda.panda_ddm_relation (
    panda_site_name varchar(52) NOT NULL,
    ddm_endpoint_name varchar(52) NOT NULL,
    is_local char(1),
    roles varchar(60),
    order_read integer,
    order_write integer,
    default_read char(1),
    default_write char(1),
    scope varchar(52) NOT NULL,
    PRIMARY KEY (panda_site_name, ddm_endpoint_name, scope)
);

CREATE TABLE doma_panda.network_matrix_kv (
    src varchar(256) NOT NULL,
    dst varchar(256) NOT NULL,
    key varchar(256) NOT NULL,
    value bigint,
    ts timestamp,
    PRIMARY KEY (src, dst, key)
);
CREATE INDEX network_matrix_kv_key_idx ON doma_panda.network_matrix_kv (key, ts);

-- The legacy counts have the default 0 and many more exist; these are the ones that are read or that scenarios carry.
CREATE TABLE doma_pandameta.sitedata (
    site varchar(60) NOT NULL,
    flag varchar(30) NOT NULL,
    hours integer NOT NULL,
    getjob integer,
    updatejob integer,
    nojob integer,
    getjobabs bigint,
    updatejobabs bigint,
    nojobabs bigint,
    laststart timestamp,
    lastmod timestamp,
    nwn integer,
    nstart integer,
    finished integer,
    failed integer,
    defined integer,
    assigned integer,
    waiting integer,
    activated integer,
    holding integer,
    running integer,
    transferring integer,
    memmin integer,
    memmax integer,
    PRIMARY KEY (site, flag, hours)
);

-- Rows that differ only by NULL in gshare or resourcetype are possible upstream, hence no unique constraint.
CREATE TABLE doma_panda.harvester_slots (
    pandaqueuename varchar(128) NOT NULL,
    gshare varchar(32),
    resourcetype varchar(56),
    numslots bigint,
    modificationtime timestamp,
    expirationtime timestamp
);
CREATE INDEX harvester_slots_queue_idx ON doma_panda.harvester_slots (pandaqueuename);

CREATE TABLE doma_panda.harvester_worker_stats (
    harvester_id varchar(50) NOT NULL,
    computingsite varchar(128) NOT NULL,
    resourcetype varchar(56) NOT NULL,
    status varchar(80) NOT NULL,
    n_workers integer,
    lastupdate timestamp,
    jobtype varchar(20) NOT NULL,
    PRIMARY KEY (harvester_id, computingsite, resourcetype, status, jobtype)
);

CREATE TABLE doma_panda.harvester_workers (
    harvesterid varchar(50) NOT NULL,
    workerid bigint NOT NULL,
    lastupdate timestamp,
    status varchar(80),
    batchid varchar(80),
    nodeid varchar(80),
    queuename varchar(80),
    computingsite varchar(128),
    computingelement varchar(128),
    submittime timestamp,
    starttime timestamp,
    endtime timestamp,
    ncore integer,
    njobs integer,
    resourcetype varchar(56),
    jobtype varchar(10),
    minramcount bigint,
    errorcode integer,
    diagmessage varchar(500),
    nativestatus varchar(80),
    nativeexitcode integer,
    pilotstatus varchar(80),
    pilotstarttime timestamp,
    pilotendtime timestamp,
    pilotstatussynctime timestamp,
    PRIMARY KEY (harvesterid, workerid)
);
CREATE INDEX harvester_workers_site_idx ON doma_panda.harvester_workers (computingsite, status);

CREATE TABLE doma_panda.worker_node (
    site varchar(128) NOT NULL,
    host_name varchar(128) NOT NULL,
    cpu_model varchar(128) NOT NULL,
    cpu_model_normalized varchar(128),
    n_logical_cpus integer,
    n_sockets integer,
    cores_per_socket integer,
    threads_per_core integer,
    cpu_architecture varchar(20),
    cpu_architecture_level varchar(20),
    clock_speed numeric(9, 2),
    total_memory bigint,
    total_local_disk bigint,
    last_seen timestamp,
    PRIMARY KEY (site, host_name, cpu_model)
);

CREATE TABLE doma_panda.worker_node_queue (
    site varchar(128) NOT NULL,
    host_name varchar(128) NOT NULL,
    panda_queue varchar(128) NOT NULL,
    last_seen timestamp,
    PRIMARY KEY (site, host_name, panda_queue)
);

CREATE TABLE doma_panda.worker_node_gpus (
    site varchar(128) NOT NULL,
    host_name varchar(128) NOT NULL,
    vendor varchar(128) NOT NULL,
    model varchar(128) NOT NULL,
    count integer,
    vram bigint,
    architecture varchar(128),
    framework varchar(128),
    framework_version varchar(20),
    driver_version varchar(20),
    last_seen timestamp,
    PRIMARY KEY (site, host_name, vendor, model)
);

-- Materialised views upstream, plain tables here so that scenarios can load them.
-- The site column is called site or atlas_site depending on the age of the view; both are kept.
CREATE TABLE doma_panda.mv_worker_node_summary (
    site varchar(128),
    atlas_site varchar(128),
    panda_queue varchar(128),
    cpu_architecture_level varchar(20),
    total_logical_cpus bigint,
    pct_within_pq numeric(7, 2)
);
CREATE INDEX mv_worker_node_summary_queue_idx ON doma_panda.mv_worker_node_summary (panda_queue);

CREATE TABLE doma_panda.mv_worker_node_gpu_summary (
    site varchar(128),
    panda_queue varchar(128),
    vendor varchar(128),
    model varchar(128),
    vram bigint,
    architecture varchar(128),
    framework varchar(128),
    framework_version varchar(20),
    driver_version varchar(20),
    gpus_per_host integer,
    host_count bigint
);
CREATE INDEX mv_worker_node_gpu_summary_queue_idx ON doma_panda.mv_worker_node_gpu_summary (panda_queue);

CREATE TABLE doma_panda.sw_tags (
    panda_queue varchar(50),
    data text,
    last_update timestamp
);
CREATE INDEX sw_tags_queue_idx ON doma_panda.sw_tags (panda_queue);

CREATE TABLE doma_panda.metrics (
    computingsite varchar(128),
    gshare varchar(32),
    metric varchar(128),
    value_json json,
    timestamp timestamp
);
CREATE INDEX metrics_metric_idx ON doma_panda.metrics (metric, computingsite, gshare);

CREATE TABLE doma_panda.task_evaluation (
    jeditaskid bigint NOT NULL,
    metric varchar(128) NOT NULL,
    value_json text,
    timestamp timestamp,
    PRIMARY KEY (jeditaskid, metric)
);
