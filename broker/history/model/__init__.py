"""The parts of a history, and the meaning of jobs' error codes. Pure."""
