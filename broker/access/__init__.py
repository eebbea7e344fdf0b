"""Who may do what: roles, scopes, claims of tokens, policies of routes. Pure; the clock is an argument."""
