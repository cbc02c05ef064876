"""``python -P -m agentv_sandbox.engines.native COMMAND...``: COMMAND where the native engine works for a user who is
not root."""

import os
import sys

from agentv_sandbox.engines.native import requirements
from agentv_sandbox.kernel import rootless


def main() -> None:
    if len(sys.argv) == 1:
        sys.exit("usage: python -P -m agentv_sandbox.engines.native COMMAND [ARGUMENT...]")
    if os.geteuid() != 0 and (lacking := requirements.missing()):
        sys.exit(f"error: {'; '.join(lacking)}")
    try:
        if os.geteuid() == 0:  # there already, or the machine's root
            os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - a list, no shell
        rootless.enter(sys.argv[1:])
    except OSError as error:
        sys.exit(f"error: {sys.argv[1]}: {error.strerror}")


main()
