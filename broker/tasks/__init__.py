"""Tasks that are submitted: from job descriptions and task parameters to rows."""
