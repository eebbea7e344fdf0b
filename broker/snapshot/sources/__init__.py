"""The sources of a snapshot, each in a module: its tables, what is asked of it, and what is made of its rows."""
