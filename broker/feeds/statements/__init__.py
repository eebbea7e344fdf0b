"""What feeds write and keep: rows of tables, documents, runs and changes, requests to Rucio, pins of queues."""
