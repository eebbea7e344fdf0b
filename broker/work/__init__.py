"""From input files to work: chunks of tasks, the smallest jobs they allow, where their input is, how jobs are cut."""
