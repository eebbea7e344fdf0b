"""Pictures as SVG, drawn on the server by pure functions: they work without JavaScript, and contain their text."""
