"""The job brokerages: facts of chunks against queues, cycles, decisions and why-not."""
