"""The HTTP API of finished simulations."""
