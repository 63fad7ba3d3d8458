"""The page: what is written for a browser, and for Prometheus."""
