-- What the clean-up asks: which snapshots does no decision need any more, and which of their parts no other snapshot.

CREATE INDEX decisions_snapshot_idx ON broker.decisions (snapshot);
CREATE INDEX snapshots_parts_idx ON broker.snapshots USING gin (jsonb_path_query_array(sources, '$.parts.*'));
