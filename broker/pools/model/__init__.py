"""SubmitPools: what jobs require of resources, and which queues of the grid meet it."""
