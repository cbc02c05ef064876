"""Calls to LLM targets over HTTP, from this machine."""
