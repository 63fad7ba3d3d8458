"""The cron directory on disk."""
