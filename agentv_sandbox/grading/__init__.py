"""What graders reach while a test is graded: containers for their commands, boxes of candidates, judges that are
programs."""
