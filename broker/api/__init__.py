"""Frame of the HTTP API: an application of FastAPI over the features' ``answers``; it needs the extra ``api``."""
