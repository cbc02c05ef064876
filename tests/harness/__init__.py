"""What holds for every test: its order, its limit of time, what is left when it has ended, what it cost."""
