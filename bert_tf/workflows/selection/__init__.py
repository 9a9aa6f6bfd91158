"""Task, settings -> the folds and the settings of several runs."""
