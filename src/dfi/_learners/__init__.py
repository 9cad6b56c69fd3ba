"""The default learner: a stack, its members, and the families and links they are fitted by."""
