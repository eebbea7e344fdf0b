"""The sources of a snapshot, one per module: its tables, its limits, and the value built from its rows."""
