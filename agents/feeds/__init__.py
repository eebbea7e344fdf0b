"""Agents that feed the tables from CRIC, Rucio, network metrics and Harvester."""
