"""The screens of typed code: its form, and the question before code of a saved run is run."""
