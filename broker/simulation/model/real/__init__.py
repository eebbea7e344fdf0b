"""The broker itself in the loop: its own functions, fed with snapshots of the simulated grid."""
