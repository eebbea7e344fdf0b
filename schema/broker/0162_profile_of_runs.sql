
-- By which profile a brokerage decided, and whether its cycle wrote nothing but decisions; null: not known, or no brokerage.

ALTER TABLE broker.agent_runs ADD COLUMN profile text;
ALTER TABLE broker.agent_runs ADD COLUMN only_recorded boolean;
