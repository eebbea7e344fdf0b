"""Pages of gdpconfig keys, their effect on the flow of work, and canaries."""
