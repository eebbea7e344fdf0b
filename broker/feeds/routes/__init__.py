"""The HTTP API of feeds: documents of sources that are handed in, and pinned fields of queues."""
