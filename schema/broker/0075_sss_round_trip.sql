-- What an import has to remember so that an export is the document again: first_part, for a job that became several rows, one
-- for each task group, the pandaid of the first; written, what the row said when it was imported, as [path, attributes, text].
ALTER TABLE broker.sss_identity ADD COLUMN first_part bigint;
ALTER TABLE broker.sss_identity ADD COLUMN written jsonb;
CREATE INDEX sss_identity_first_part_idx ON broker.sss_identity (first_part) WHERE first_part IS NOT NULL;
