"""Who calls the ticks: the chain that `start` sets going, and the daemon."""
