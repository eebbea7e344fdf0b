"""PanDA's own brokers beside ours on one grid, in one process: ``make bench-panda GRID=FILE``.

PanDA's classes are those of the installed panda-server, unchanged. What they ask of a database and of Rucio is answered
from memory and not counted, so that the time of theirs is the time of their Python.
"""
