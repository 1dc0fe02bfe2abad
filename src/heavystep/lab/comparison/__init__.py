"""One machine for every table: tasks, contenders, values of their main constant, seeds."""
