"""Conformance kit for compute agents: does an agent keep its side of the protocol?

Run it against an agent of your own::

    pytest -p nova_sched.testing.agent.option --pyargs nova_sched.testing.agent --agent mypackage.mymodule:make_agent

``make_agent(bed)`` gets an :class:`~nova_sched.testing.agent.bed.AgentBed` (in-process bus, names, capacity, which
builds have to fail) and returns an object with ``start()`` and ``stop()``. ``pytest --pyargs
nova_sched.testing.agent`` alone checks the reference agent.
"""
