"""The terminal: driver, input, signals, and undocumented parts of Textual."""
