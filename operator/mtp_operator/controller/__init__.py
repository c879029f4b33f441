"""The operator as a process: kopf's watches into a work queue, and what a process needs around it."""
