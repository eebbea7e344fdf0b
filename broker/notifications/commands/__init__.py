"""``broker notify``, and subscriptions to tasks."""
