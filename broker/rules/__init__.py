"""The rules: filters that reject candidates, weights that rank them, and cuts that depend on the weight."""
