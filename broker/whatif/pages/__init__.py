"""Pages of runs: what-ifs, sweeps and replays, and pictures of their results."""
