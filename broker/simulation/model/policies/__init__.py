"""Policies: which queue the jobs of which task go to. Further ones are found by the entry point ``broker.policies``."""
