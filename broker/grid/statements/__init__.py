"""Reads and writes of the state of the grid."""
