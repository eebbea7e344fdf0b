"""Encoding of work and decisions as stored bytes, and decoding."""
