"""Commands about decisions: explain, why-not, history, replay, rules."""
