"""Commands about feeds: imports by hand, what they did, and what of queues operators hold."""
