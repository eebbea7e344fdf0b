"""Frame of the HTTP API: a FastAPI application over the features' ``answers``. Needs the extra ``api``."""
