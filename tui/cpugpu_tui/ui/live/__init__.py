"""Between the threads of a run and the app: what is opened, what threads tell, what was saved."""
