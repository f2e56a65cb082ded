"""What a person asks before running: is this configuration sound, what would a first one look like, carry mine over."""
