"""Access to PostgreSQL: external or embedded servers, schema names, the tables a database has, and named errors."""
