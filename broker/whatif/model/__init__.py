"""What stored cycles would have decided with other tuning values or rules, and how that differs. Nothing is written."""
