"""The engine of the generic job brokerage: what it does beside its rules. Source: PanDA JEDI, GenJobBroker."""
