"""Answers about what is learned from job outcomes: the record of queues, and their health."""
