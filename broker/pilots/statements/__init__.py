"""From assigned jobs to pilots: activation, task queues, and the job that a pilot gets."""
