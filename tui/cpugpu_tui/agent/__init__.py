"""The process that times: its messages, its torch-worker thread, its guardian. It runs in any interpreter."""
