"""The engine of the generic job brokerage: what it does apart from its rules. Source: PanDA JEDI, GenJobBroker."""
