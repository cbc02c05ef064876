"""Task folders of other formats (Harbor, Terminal-Bench) as suites."""
