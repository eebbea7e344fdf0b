"""Classes of queues, users and tasks, and the usage of shares. Pure."""
