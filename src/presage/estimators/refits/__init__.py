"""What happened to jobs corrects what is said of the next: factors by kind of job, in versions that must win."""
