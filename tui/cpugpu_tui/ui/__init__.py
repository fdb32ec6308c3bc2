"""The terminal app. Textual is imported only here."""
