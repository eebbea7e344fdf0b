"""The work of a cycle read from the tables: chunks, tasks, their input and its replicas."""
