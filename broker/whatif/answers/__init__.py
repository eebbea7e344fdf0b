"""What-ifs, sweeps and previews as use cases over stored cycles."""
