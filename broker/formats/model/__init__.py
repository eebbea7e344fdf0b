"""Exchange formats: what jobs, machines and systems tell each other. One module reads or writes, another decides."""
