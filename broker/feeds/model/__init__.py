"""Feeds: facts of the grid from CRIC, Rucio, network metrics and Harvester, fetched, checked and mapped to rows."""
