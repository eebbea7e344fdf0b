"""One module of routes for each topic; each has ``router``, and a line in :mod:`broker.api.routers.registry`."""
