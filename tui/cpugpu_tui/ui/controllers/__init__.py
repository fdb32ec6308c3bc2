"""What the app does, one controller each; `Port` is all that they ask of the app."""
