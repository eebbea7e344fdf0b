"""Which incidents are told to whom, when and in which words. Pure."""
