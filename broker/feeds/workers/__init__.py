"""Worker statistics as Harvester reports them."""
