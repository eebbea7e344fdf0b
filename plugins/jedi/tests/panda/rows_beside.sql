-- What PanDA's classes read beside the tables of a scenario, filled for the one that is loaded.

INSERT INTO doma_panda.jedi_aux_status_mintaskid (status, min_jeditaskid) SELECT status, min(jeditaskid) FROM doma_panda.jedi_tasks GROUP BY status;
INSERT INTO doma_panda.jedi_jobparams_template (jeditaskid, jobparamstemplate) SELECT jeditaskid, 'x' FROM doma_panda.jedi_tasks;
INSERT INTO doma_pandameta.users (id, name, dn) SELECT row_number() OVER (ORDER BY username), username, username FROM (SELECT DISTINCT username FROM doma_panda.jedi_tasks WHERE username IS NOT NULL) AS one;
SELECT setval('doma_pandameta.users_id_seq', 1000);
DELETE FROM doma_panda.jedi_taskparams WHERE taskparams IS NULL;
INSERT INTO doma_panda.jedi_taskparams (jeditaskid, taskparams) SELECT jeditaskid, '{}' FROM doma_panda.jedi_tasks t WHERE NOT EXISTS (SELECT FROM doma_panda.jedi_taskparams p WHERE p.jeditaskid = t.jeditaskid);
INSERT INTO doma_deft.t_task (taskid, status, timestamp, submit_time) SELECT jeditaskid, status, modificationtime, modificationtime FROM doma_panda.jedi_tasks;
INSERT INTO doma_panda.jobparamstable (pandaid, modificationtime, jobparameters) SELECT pandaid, modificationtime, 'x' FROM doma_panda.metatable;
