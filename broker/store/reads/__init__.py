"""Reading the work of a cycle from the tables: chunks, tasks, their input and its replicas."""
