"""Commands about what waits and what happened: ``broker tasks``, ``jobs``, ``reasons``, ``history``, ``user``."""
