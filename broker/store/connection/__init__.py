"""Reaching PostgreSQL: given or embedded, schema names, tables that are there, and errors by name."""
