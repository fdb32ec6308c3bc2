"""What `doctor` looks at: facts are collected first, each within its deadline, and judged by pure functions."""
