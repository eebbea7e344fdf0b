"""The languages of software and hardware requirements, and the check against what queues offer."""
