"""The frame of all experiments: what one is, how it runs, where its results lie, how it is judged."""
