"""The production task brokerage: its rules in order, its cycle, and the rows it writes."""
