"""The service around the agents: base class, cycle, leases, schedule, configuration, log."""
