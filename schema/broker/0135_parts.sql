
-- Which part of its work a cycle took, as '1/2', where the work of an agent is divided between brokers; null: all of it.

ALTER TABLE broker.agent_runs ADD COLUMN part text;
