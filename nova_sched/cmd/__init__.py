"""Entry points: the daemon, the agent, the command lines and the upgrade check."""
