"""What a run means: who wins at which sizes, what was not judged and why. Codes and numbers, no words."""
