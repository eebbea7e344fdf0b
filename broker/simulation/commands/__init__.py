"""Commands that simulate a grid."""
