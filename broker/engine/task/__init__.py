"""The task brokerage: facts of tasks against nuclei, cycles, decisions and why-not."""
