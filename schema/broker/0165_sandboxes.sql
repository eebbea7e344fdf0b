-- Archives of programs that panda-client uploads, for the jobs of its user's tasks to fetch. They are never overwritten, and jobs
-- show no token: whoever knows the name, which has a UUID in it, may fetch one. The agent cleanup removes what nobody has used
-- for a while.
--   checksum: CRC-32 of what is packed, from the last bytes of the archive; with size_bytes it finds an archive again.
--   used_at: upload, submission or, to the hour, the last job that fetched it.
CREATE TABLE broker.sandboxes (
    name text PRIMARY KEY,
    username varchar(128) NOT NULL,
    size_bytes bigint NOT NULL,
    checksum bigint NOT NULL,
    uploaded_at timestamptz NOT NULL,
    used_at timestamptz NOT NULL,
    content bytea NOT NULL
);
-- it is packed already
ALTER TABLE broker.sandboxes ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX sandboxes_of_user_idx ON broker.sandboxes (username, size_bytes, checksum);
CREATE INDEX sandboxes_used_idx ON broker.sandboxes (used_at);
