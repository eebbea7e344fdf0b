"""Commands about notifications: ``broker notify``, and subscriptions to tasks."""
