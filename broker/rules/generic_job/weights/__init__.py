"""Weights of the generic job brokerage, one file each."""
