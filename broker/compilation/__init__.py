"""Compiling the loop of cycles beside the process that decides."""
