"""Rules and readings that more than one brokerage uses."""
