"""Parts common to the job brokerages: from chunks to jobs, stored chunks, and their replay."""
