"""The broker itself in the loop: its own functions, on snapshots of the simulated grid."""
