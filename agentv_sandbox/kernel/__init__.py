"""What the native engine asks of this machine's kernel: user ids, control groups, namespaces, places."""
