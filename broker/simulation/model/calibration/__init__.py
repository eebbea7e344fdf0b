"""Fits of what real grids did, how well they hold, and grids that are made of them."""
