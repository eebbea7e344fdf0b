"""The agents that keep the summaries of worker nodes current."""
