"""Frozen types and vocabularies of the grid: queues, nuclei, storages, links, jobs, work and decisions. No I/O."""
