"""What the commands share that run something: sessions, saving, progress, outputs."""
