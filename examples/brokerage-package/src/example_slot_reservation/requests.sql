-- Requests for slots of an HPC allocation. A request without a queue waits.
CREATE TABLE IF NOT EXISTS public.hpc_slot_requests (
    requestid   bigint PRIMARY KEY,
    vo          text NOT NULL,
    slots       integer NOT NULL CHECK (slots > 0),
    walltime_s  integer NOT NULL CHECK (walltime_s > 0),
    queue       text,                        -- where the slots are reserved
    retry_at    timestamp                    -- UTC; not brokered again before
);
