"""The HTTP API: an application of FastAPI over the use cases in ``broker.app``; it needs the extra ``api``."""
