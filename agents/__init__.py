"""The long-running side: leases, cycles, the schedule, and one module for each agent."""
