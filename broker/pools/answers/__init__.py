"""Answers about SubmitPools, and files of pools, resources and specs as they are read."""
