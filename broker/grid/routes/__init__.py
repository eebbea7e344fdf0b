"""The HTTP API about the grid: queues, nuclei, links and shares."""
