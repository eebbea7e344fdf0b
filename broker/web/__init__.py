"""The web page: answers of the query layer as HTML with SVG, served alongside the HTTP API."""
