"""SQL from which simulations are fitted or begin: the history of a site, profiles of jobs, the grid as it is."""
