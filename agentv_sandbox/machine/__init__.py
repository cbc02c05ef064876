"""Is this machine fit for runs: checks of `doctor`, and attacks on the own engine (`selfcheck`)."""
