"""What the HTTP API remembers: requests and their answers, tokens that were used, keys of issuers, runs."""
