"""Pictures as SVG, made on the server by pure functions: they work without JavaScript, and carry their text."""
