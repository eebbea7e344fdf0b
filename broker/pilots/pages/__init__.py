"""The page that explains matches: nodes for a job, and jobs for a node."""
