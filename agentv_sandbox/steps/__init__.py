"""What is done for one test: its volumes and limits, hooks, the agent's container, what graders may reach."""
