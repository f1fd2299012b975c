"""Shipped help for tests of this service, of plugins and of agents."""
