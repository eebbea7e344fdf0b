"""The service's answers as tools for an assistant, and their size limits. Pure."""
