"""Jobs over HTTP."""
