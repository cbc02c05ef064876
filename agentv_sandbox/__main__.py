"""``python -P -m agentv_sandbox``."""

from agentv_sandbox.cli import main

main()
