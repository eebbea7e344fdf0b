"""The database: connections, schema, and the mapping of rows to domain objects."""
