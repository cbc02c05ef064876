"""Programs in Python, JavaScript and of shells, read and never run: what they call, name and compare."""
