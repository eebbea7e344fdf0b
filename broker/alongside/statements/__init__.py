"""SQL of this feature: placements of PanDA's, calls of the plug-in, and the statements and ages of copies."""
