"""One test's way: its attempts, its conversation, its answer and the verdict on it; and grading without an agent."""
