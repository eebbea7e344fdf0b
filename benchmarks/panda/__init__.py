"""PanDA's own brokers beside ours on one grid, in one process: ``make bench-panda GRID=FILE``.

PanDA's classes are those of the installed panda-server, unchanged. Their queries to the database and to Rucio are
answered from memory and not counted, so that only the time of their Python code is measured.
"""
