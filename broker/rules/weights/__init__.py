"""Weights: one file for each factor of the weight of a candidate."""
