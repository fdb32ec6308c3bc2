"""The page with the details of one row."""
