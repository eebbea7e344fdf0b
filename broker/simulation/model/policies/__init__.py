"""Policies that assign jobs to queues. Further ones are found by the entry point group ``broker.policies``."""
