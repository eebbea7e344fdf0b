"""Pages of feeds: documents, and pinned fields of queues."""
