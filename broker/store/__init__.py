"""The database: connections, schema, and the rows that become domain objects."""
