"""What may be said of shares and of the readiness of a grid, and what follows; pure."""
