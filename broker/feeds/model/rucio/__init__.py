"""Rucio: space of endpoints, replicas of datasets and files, quotas."""
