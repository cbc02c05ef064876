"""Runs AgentV evaluation suites in disposable, locked-down containers."""

__version__ = "0.1.0"
