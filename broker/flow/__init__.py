"""One linear program per cycle: all chunks, feasible queues, room, links and shares together (extra flow)."""
