"""What is asked: text of exact length, from real sources, made unlike every other prompt by its first words."""
