"""The agents that keep the classes of queues, users, tasks and shares current."""
