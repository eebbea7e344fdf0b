"""Pure rules on global shares and on the readiness of a grid."""
