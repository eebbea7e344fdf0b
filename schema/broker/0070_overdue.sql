-- What tells a cycle that is overdue from one that still has time: the seconds it may take; null: without a limit.

ALTER TABLE broker.agent_runs ADD COLUMN budget_s double precision;

-- What a service says of itself with each heartbeat, for its health check; null: of a release that said nothing yet.

ALTER TABLE broker.services ADD COLUMN state jsonb;
