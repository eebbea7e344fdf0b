"""Cuts: filters on the load and the weight of a candidate, applied after weighing."""
