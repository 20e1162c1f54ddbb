"""Admin of evaluation: golden questions, runs, progress, and the comparison of two runs."""
