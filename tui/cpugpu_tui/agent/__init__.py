"""The process that times: its words, its torch-worker thread, its guardian; travels to any interpreter."""
