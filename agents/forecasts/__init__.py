"""The agent that forecasts when waiting work will start, and the roll-outs that it may use."""
