-- The version of PanDA's schema, as its scripts write it. Source: panda-database, pg_PANDA_TABLE. Nothing writes it standalone.

CREATE TABLE doma_panda.pandadb_version (
    component varchar(100) NOT NULL,
    major integer,
    minor integer,
    patch integer,
    PRIMARY KEY (component)
);
