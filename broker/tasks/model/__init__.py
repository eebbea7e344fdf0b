"""Task parameters, templates and datasets as values: read, checked, expanded. Pure."""
