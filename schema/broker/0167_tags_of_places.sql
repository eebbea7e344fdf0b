-- The tags that the resources declare for each place (parameter Tag): a job may ask for them as for those of a node.
ALTER TABLE broker.resource_queues ADD COLUMN tags jsonb;
UPDATE broker.resource_queues SET tags = '[]';
ALTER TABLE broker.resource_queues ALTER COLUMN tags SET NOT NULL, ALTER COLUMN tags SET DEFAULT '[]';
