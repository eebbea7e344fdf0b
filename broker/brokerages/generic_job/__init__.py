"""The generic job brokerage: its rules in order, and its cycle."""
