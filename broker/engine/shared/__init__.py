"""Engine parts common to all brokerages: chains of rules, evaluation, ranking, distribution."""
