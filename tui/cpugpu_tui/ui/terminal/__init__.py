"""The terminal: driver, input, signals, and what is used of Textual without being documented."""
