"""The drivers: who decides on which host an instance goes."""
