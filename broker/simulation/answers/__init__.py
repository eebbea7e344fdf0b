"""Simulations as use cases: figures of merit of policies, real agents on a simulated grid, checks with real weeks."""
