"""The agents that keep summaries current: worker nodes, GPUs, queue features."""
