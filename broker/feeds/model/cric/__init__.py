"""CRIC documents: queues, software tags, sites, endpoints and their states, closeness."""
