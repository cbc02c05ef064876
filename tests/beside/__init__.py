"""Small suites through AgentV and through us: rows, and what agents and judges are asked."""
