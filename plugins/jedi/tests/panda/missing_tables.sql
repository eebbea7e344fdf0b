-- What PanDA's classes read beside the tables that gridbroker knows, filled for the scenario that is loaded.

CREATE TABLE IF NOT EXISTS doma_panda.jedi_aux_status_mintaskid (status varchar(64) PRIMARY KEY, min_jeditaskid bigint NOT NULL);
DELETE FROM doma_panda.jedi_aux_status_mintaskid;
INSERT INTO doma_panda.jedi_aux_status_mintaskid SELECT status, min(jeditaskid) FROM doma_panda.jedi_tasks GROUP BY status;
CREATE TABLE IF NOT EXISTS doma_panda.cache (main_key varchar(64) NOT NULL, sub_key varchar(64) NOT NULL, data text, last_update timestamp NOT NULL, PRIMARY KEY (main_key, sub_key));
CREATE TABLE IF NOT EXISTS doma_panda.jedi_jobparams_template (jeditaskid bigint PRIMARY KEY, jobparamstemplate text);
DELETE FROM doma_panda.jedi_jobparams_template;
INSERT INTO doma_panda.jedi_jobparams_template SELECT jeditaskid, 'x' FROM doma_panda.jedi_tasks;
CREATE TABLE IF NOT EXISTS doma_pandameta.users (id bigint, name varchar(60), dn varchar(150), email varchar(60), cputime1 bigint default 0, cputime7 bigint default 0, cputime30 bigint default 0, cputimea1 bigint, cputimea7 bigint, cputimea30 bigint, quotaa1 bigint, quotaa7 bigint, quotaa30 bigint, sub2 varchar(255), location varchar(60), classa varchar(30), classp varchar(30), njobsa bigint, status varchar(20), ncurrent integer, gridpref varchar(60), queuepref varchar(60), scriptcache varchar(100));
DELETE FROM doma_pandameta.users;
INSERT INTO doma_pandameta.users (name, dn) SELECT DISTINCT username, username FROM doma_panda.jedi_tasks WHERE username IS NOT NULL;
INSERT INTO doma_panda.jedi_taskparams (jeditaskid, taskparams) SELECT jeditaskid, '{}' FROM doma_panda.jedi_tasks t WHERE NOT EXISTS (SELECT FROM doma_panda.jedi_taskparams p WHERE p.jeditaskid = t.jeditaskid AND p.taskparams IS NOT NULL);
CREATE SCHEMA IF NOT EXISTS doma_deft;
CREATE TABLE IF NOT EXISTS doma_deft.t_task (taskid bigint PRIMARY KEY, parent_tid bigint, status varchar(12), timestamp timestamp, start_time timestamp, current_priority integer, priority integer, total_req_jobs bigint, total_done_jobs bigint, total_input_events bigint, vo varchar(16), prodsourcelabel varchar(20), taskname varchar(130), username varchar(128), bug_report bigint);
DELETE FROM doma_deft.t_task;
INSERT INTO doma_deft.t_task (taskid, status, timestamp) SELECT jeditaskid, status, modificationtime FROM doma_panda.jedi_tasks;
-- Read and stamped when jobs end; what they emit is known of no region.
CREATE TABLE IF NOT EXISTS doma_panda.jobparamstable (pandaid bigint, modificationtime timestamp, jobparameters text);
DELETE FROM doma_panda.jobparamstable;
INSERT INTO doma_panda.jobparamstable SELECT pandaid, modificationtime, 'x' FROM doma_panda.metatable;
CREATE TABLE IF NOT EXISTS doma_panda.datasets (vuid varchar(40), name varchar(255), subtype varchar(5), status varchar(10), currentfiles bigint);
CREATE TABLE IF NOT EXISTS doma_panda.carbon_region_emissions (region varchar(16), timestamp timestamp, value numeric);
CREATE TABLE IF NOT EXISTS doma_panda.task_metrics (jeditaskid bigint, creationtime timestamp, modificationtime timestamp, data text);
CREATE TABLE IF NOT EXISTS doma_panda.job_metrics (jeditaskid bigint, pandaid bigint, creationtime timestamp, modificationtime timestamp, data text);
