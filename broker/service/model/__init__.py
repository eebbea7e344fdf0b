"""Which incidents are sent to whom, when, and in which words. Pure."""
