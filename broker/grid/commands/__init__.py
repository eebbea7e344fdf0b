"""Commands about the grid."""
