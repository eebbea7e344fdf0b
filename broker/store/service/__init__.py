"""The service's own rows: leases, runs of agents, and heartbeats of processes."""
