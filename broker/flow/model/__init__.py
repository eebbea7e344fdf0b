"""One linear program a cycle: all chunks, feasible queues, room, links and shares together (extra simulate)."""
