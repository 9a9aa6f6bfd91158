"""A loaded model -> a page in the browser."""
