"""How targets and judges are asked from this machine: requests, retries, recordings."""
