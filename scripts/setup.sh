#!/bin/bash
# Makes this machine ready for the tests: the servers (Redis, ZooKeeper, etcd,
# PostgreSQL with PgBouncer, MariaDB), a C compiler for the race detector, and the etcd that is built from source.
# On Debian and its relatives, as root, it installs what is missing and starts
# no service. Anywhere else it says in one line each what is missing and how to
# get it. Run again, it does nothing that is already done.
set -eu
cd "$(dirname "$0")/.."

have() { command -v "$1" >/dev/null 2>&1; }

have_zookeeper() {
	have java || return 1
	[ -n "${LOCKER_ZOOKEEPER_JARS:-}" ] && return 0
	[ -e /usr/share/java/zookeeper.jar ] && [ -e /usr/share/java/zookeeper-jute.jar ]
}

# Debian's etcd (3.4) is only a second version to test against; the one that
# every test uses is built below.
need_old_etcd() { ! have etcd; }

# A server whose addresses are given needs no program here.
need_redis() { [ -z "${LOCKER_REDIS:-}" ] && ! have redis-server; }
need_zookeeper() { [ -z "${LOCKER_ZOOKEEPER:-}" ] && ! have_zookeeper; }
have_postgres() {
	have postgres && have initdb && return 0
	local bin
	for bin in /usr/lib/postgresql/*/bin/initdb; do [ -x "$bin" ] && return 0; done
	return 1
}
have_mariadb() { [ -x /usr/sbin/mariadbd ] || have mariadbd; }
need_compiler() { [ "$(uname -s)" = Linux ] && ! have "${CC:-gcc}" && ! have cc; }

install_debian() {
	local packages=()
	have git || packages+=(git)
	have make || packages+=(make)
	if need_compiler; then packages+=(gcc libc6-dev); fi
	have redis-server || packages+=(redis-server)
	have_zookeeper || packages+=(libzookeeper-java default-jre-headless)
	if need_old_etcd; then packages+=(etcd-server); fi
	have_postgres || packages+=(postgresql)
	have pgbouncer || packages+=(pgbouncer)
	have_mariadb || packages+=(mariadb-server)
	[ ${#packages[@]} -gt 0 ] || return 0

	echo "setup: installing ${packages[*]}"
	exec 9>/tmp/locker-setup.lock
	flock 9 # two at once would take each other's policy for the one to put back
	forbid_services
	export DEBIAN_FRONTEND=noninteractive
	local apt=(apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq -y)
	"${apt[@]}" update </dev/null
	"${apt[@]}" install --no-install-recommends "${packages[@]}" </dev/null >"$log" 2>&1 || {
		tail -n 40 "$log"
		echo "setup: apt-get could not install ${packages[*]}"
		exit 1
	}
	allow_services
	# What was installed just now must not come up at the next boot either.
	if [ -d /run/systemd/system ]; then
		local p
		for p in "${packages[@]}"; do
			case $p in
			redis-server) systemctl disable --quiet redis-server ;;
			etcd-server) systemctl disable --quiet etcd ;;
			postgresql | pgbouncer) systemctl disable --quiet "$p" ;;
			mariadb-server) systemctl disable --quiet mariadb ;;
			esac
		done
	fi
}

# Debian's packages start their service when they are installed, unless
# policy-rc.d says no. A policy that was there before is put back afterwards.
policy=/usr/sbin/policy-rc.d
forbid_services() {
	if [ -e $policy ]; then mv $policy $policy.before-locker; fi
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
	ours=yes
}
allow_services() {
	[ "$ours" = yes ] || return 0
	rm -f $policy
	if [ -e $policy.before-locker ]; then mv $policy.before-locker $policy; fi
	ours=no
}

ours=no
log=$(mktemp)
trap 'allow_services; rm -f "$log"' EXIT

if [ "$(uname -s)" = Linux ] && have apt-get && [ "$(id -u)" = 0 ]; then
	install_debian
fi

missing=no
say() {
	missing=yes
	echo "setup: $1"
}
hint=""
if have apt-get; then hint="as root: apt-get install"; fi
have go || say "go is missing: install the Go that go.mod names, or newer, from https://go.dev/dl/"
have git || say "git is missing: ${hint:-install} git"
if need_compiler; then say "a C compiler is missing (the race detector needs one): ${hint:-install} gcc libc6-dev"; fi
if need_redis; then say "redis-server is missing: ${hint:-install} redis-server (or start one, see compose.yaml, and set LOCKER_REDIS)"; fi
if need_old_etcd; then say "etcd is missing (any version from 3.4 on, to test against beside the one that is built): ${hint:-install} etcd-server"; fi
if need_zookeeper; then say "ZooKeeper is missing: ${hint:-install Java and} libzookeeper-java default-jre-headless (or unpack a release and set LOCKER_ZOOKEEPER_JARS to its lib folder; or start one, see compose.yaml, and set LOCKER_ZOOKEEPER)"; fi
if ! have_postgres; then say "PostgreSQL (14 or later) is missing: ${hint:-install} postgresql"; fi
if ! have pgbouncer; then say "PgBouncer is missing: ${hint:-install} pgbouncer"; fi
if ! have_mariadb; then say "MariaDB (10.6 or later) is missing: ${hint:-install} mariadb-server"; fi
if [ $missing = yes ]; then
	echo "setup: with Docker, everything runs in a container instead: docker compose run --rm test"
	exit 1
fi

if [ -z "${LOCKER_ETCD:-}" ]; then
	echo "setup: etcd is $(go run ./internal/servers/build-etcd)"
fi
