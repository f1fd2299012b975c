"""All tests may ask for private servers; see nova_sched/testing/pytest_plugin.py."""

pytest_plugins = ["nova_sched.testing.pytest_plugin"]
