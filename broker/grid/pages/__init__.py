"""Pages of the grid: queues and nuclei, links and shares, and the maps."""
