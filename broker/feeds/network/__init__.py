"""Network metrics: transferred and queued files, and throughput, by link."""
