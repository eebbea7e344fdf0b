"""Filters: one file for each, named for its reason. Their order is policy and belongs to the brokerage."""
