"""A model -> a page in the browser that asks it."""
