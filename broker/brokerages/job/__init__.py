"""What the job brokerages share: from chunks to jobs, stored chunks, and their replay."""
