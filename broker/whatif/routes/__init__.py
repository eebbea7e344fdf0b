"""The HTTP API of runs: what-ifs, sweeps, previews and replays, and the queue in which they wait."""
