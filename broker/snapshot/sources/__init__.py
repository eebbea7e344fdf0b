"""The sources of a snapshot, one a module: its tables, its limits, and the value built from its rows."""
