"""Pages of what waits and happened: work, users, reasons and runs, and the search box."""
