"""Options of nova.conf: one module per group, and :mod:`nova_sched.conf.build` that turns them into settings."""
