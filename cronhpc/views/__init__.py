"""Facts to text, JSON and HTML; pure."""
