"""What pilots and Harvester ask and report, as rows."""
