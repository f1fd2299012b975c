"""A filter as it would be written for Nova; runs unedited with ``[plugins] nova_imports = true``."""

from nova.scheduler import filters


class EvenHostsFilter(filters.BaseHostFilter):
    """Guests of flavors with the extra spec ``parity = even`` go to hosts with an even number of guests."""

    def host_passes(self, host_state, spec_obj):
        if spec_obj.flavor.extra_specs.get("parity") != "even":
            return True
        return host_state.num_instances % 2 == 0
