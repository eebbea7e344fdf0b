"""SQL about the service: cycles of agents, ages of sources, flow of work, and what metrics report."""
