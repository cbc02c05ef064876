"""Where programs of others find this one: pytest's plugin, Inspect's sandbox. Each is found by its entry point."""
