"""What classes of queues, users, tasks and shares are made from, and their rows in PanDA's tables."""
