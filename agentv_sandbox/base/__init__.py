"""What every room may use and what uses none of them: errors, logs, bounded files, programs of the host, HTTP."""
