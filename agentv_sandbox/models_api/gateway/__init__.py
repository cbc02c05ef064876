"""What agents may ask of servers of models, and what it cost."""
