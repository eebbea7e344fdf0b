"""The languages in which tasks say what software and hardware they need, and the check against what queues offer."""
