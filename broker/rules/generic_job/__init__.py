"""The rules of the generic job brokerage. Source: PanDA JEDI, GenJobBroker."""
