"""Commands about jobs that wait or run for too long: ``broker timeouts`` and ``broker why-timeout``."""
