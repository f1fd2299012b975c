"""pbr reads setup.cfg; this file exists because without it pbr.build drops the entry points."""

import setuptools

setuptools.setup(setup_requires=["pbr>=6.1"], pbr=True)
