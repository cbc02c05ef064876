"""What calls of agents and of this machine share: recordings, replays, rate limits, waits."""
