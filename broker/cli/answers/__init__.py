"""Commands that ask: tasks, reasons, queues, nuclei, links, shares, users, alarms; and pause and resume."""
