"""The rows of the service itself: leases, runs of agents, and heartbeats of processes."""
