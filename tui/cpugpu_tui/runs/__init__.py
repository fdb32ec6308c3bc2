"""A RUN AS A WHOLE: how an agent is started, its events, the store, the state that panes and tables show."""
