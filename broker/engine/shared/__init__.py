"""What every brokerage runs on: chains of rules, evaluation, ranking, distribution."""
