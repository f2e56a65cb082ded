"""The command line: one file a verb, one sink for all output. Heavy imports happen inside the verbs that need them."""
