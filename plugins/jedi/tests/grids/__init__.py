"""Synthetic grids for comparing two brokers: small, seeded, and bent so that many rules fire."""
