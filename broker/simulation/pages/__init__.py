"""Pages of simulations and the policies that they compare."""
