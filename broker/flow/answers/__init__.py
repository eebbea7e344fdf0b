"""What outcomes teach: the record of queues, and their health."""
