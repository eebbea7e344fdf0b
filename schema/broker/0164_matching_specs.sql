-- What jobs ask of the node of a pilot, as canonical text of matchspec/1; null: nothing. Task queues that are there already
-- hold jobs that ask for nothing, under the identities that they have.
ALTER TABLE broker.task_requirements ADD COLUMN specs text;
ALTER TABLE broker.task_queues ADD COLUMN specs text;
