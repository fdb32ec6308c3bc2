"""The actions of the app, by topic; controllers use the app through `Shell` only."""
