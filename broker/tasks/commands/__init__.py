"""Commands about tasks that are submitted here, and about their output: ``broker submit``, ``task``, ``outputs``."""
