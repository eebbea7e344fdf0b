"""The agents that activate jobs for pilots and complete what pilots report."""
