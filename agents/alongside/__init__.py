"""What agents beside PanDA use to end jobs through PanDA's server, which keeps its own tables."""
