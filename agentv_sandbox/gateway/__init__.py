"""What stands before models' servers: reads each call of an agent, lets pass what is granted, counts it."""
