"""What pilots and jobs report of themselves: Machine/Job Features and job status."""
