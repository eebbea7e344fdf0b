"""The agent that sends notifications of alarms, reasons and subscribed tasks."""
