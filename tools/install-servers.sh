#!/bin/sh
# Installs what the tests start privately: RabbitMQ, PostgreSQL, MariaDB, Chromium and shellcheck.
#
# No system service is started and no cluster is made: the tests use the programs only, on ports and folders of their own.
# As root it installs what is missing by apt; anybody else is told what to install. A second run does nothing.
set -eu

missing=""

# need PACKAGE PROGRAM...: one of the programs (names or patterns of absolute paths) must be there.
need() {
    package=$1
    shift
    for program in "$@"; do
        if command -v "$program" >/dev/null 2>&1 || [ -x "$program" ]; then
            return 0
        fi
    done
    missing="$missing $package"
}

need rabbitmq-server /usr/sbin/rabbitmq-server rabbitmq-server
# shellcheck disable=SC2046 # one word per installed version is meant
need postgresql $(ls -d /usr/lib/postgresql/*/bin/postgres 2>/dev/null || echo postgres)
need mariadb-server /usr/sbin/mariadbd mariadbd
need chromium chromium chromium-browser google-chrome
need shellcheck shellcheck

[ -n "$missing" ] || exit 0

command="apt-get install --no-install-recommends$missing"
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests need servers that are not installed:$missing" >&2
    echo "Install them, for example (as root): $command" >&2
    exit 1
fi

# Packages ask this program before they start a service; 101 is "not allowed". An answer that is there already is kept.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM
fi

# PostgreSQL's package makes a cluster named main unless it is told not to.
cluster=/etc/postgresql-common/createcluster.conf
if [ ! -e "$cluster" ]; then
    mkdir -p "${cluster%/*}"
    echo 'create_main_cluster = false' >"$cluster"
elif ! grep -q '^create_main_cluster *= *false' "$cluster" && ! ls /etc/postgresql/*/main >/dev/null 2>&1; then
    echo 'create_main_cluster = false' >>"$cluster"
fi

export DEBIAN_FRONTEND=noninteractive
echo "Installing$missing (services stay off)"
apt-get update -q
# shellcheck disable=SC2086 # the list is words
apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confold $missing
