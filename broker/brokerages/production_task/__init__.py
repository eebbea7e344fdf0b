"""The production task brokerage: its rules in order, its cycle, and what is written of it."""
