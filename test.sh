#!/usr/bin/env bash
# Runs every test of the workspace against the real counterparts and fetches those that are missing.
#
#   ./test.sh              all tests
#   ./test.sh crash        the tests whose name contains "crash"
#
# A test whose counterpart cannot be installed is skipped and named at the end. With CI=true a skipped
# test is a failure. The slowest tests, and what failed tests said, are shown at the end.
set -euo pipefail
cd "$(dirname "$0")"

work="$(mktemp -d)"
installing=
finish() {
    for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

# Downloads need no processor: they run beside the build. Only make has to be there before it.
if command -v make >/dev/null; then
    tests/install.sh &
    installing=$!
else
    tests/install.sh
fi

# The system tests start the built daemon. Built together with the tests, it shares their libraries.
cargo build --workspace --bins --tests --profile ci --locked
if [ -n "$installing" ]; then
    wait "$installing"
fi

target="${CARGO_TARGET_DIR:-$PWD/target}"
export PLUMBAGO_BIN="$target/ci/plumbago" PLUMBAGO_SKIPPED="$work/skipped"
host="$(rustc -vV | sed -n 's/^host: //p')"
export "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER=$PWD/tests/timed.sh"

# Replaces a subshell by a run of the tests of a lane: the system tests, or all others (see tests/timed.sh). The lanes run at
# the same time, because many tests wait for servers and timers.
lane() {
    export PLUMBAGO_LANE="$1" RUST_TEST_THREADS="${RUST_TEST_THREADS:-$2}"
    exec cargo test --workspace --bins --lib --tests --profile ci --locked --no-fail-fast -- "${@:3}"
}

failed=0
lane others "$(nproc)" "$@" >"$work/others" 2>&1 &
others=$!
lane system "$(($(nproc) + 1))" "$@" | tee "$work/system" || failed=$?
echo "The other tests, which ran meanwhile:"
wait "$others" || failed=$?
cat "$work/others"

echo
echo "The slowest tests:"
# sed reads to the end. head would not, and sort would fail with a broken pipe.
sed -n 's/^test \(.*\) \.\.\. .*<\([0-9.]*\)s>$/\2 s  \1/p' "$work"/{system,others} | sort -rn | sed -n '1,20s/^/  /p'
if [ "$failed" != 0 ]; then
    # Once more at the end, where it is found: the names above stand between thousands of lines.
    echo
    echo "What the failed tests said, at most 60 lines of each:"
    awk '/^---- .* stdout ----$/ { on = 1; lines = 0 } /^failures:$/ { on = 0 } on && lines++ < 60' "$work"/{system,others} |
        cut -c1-1000
fi
if [ -s "$PLUMBAGO_SKIPPED" ]; then
    echo
    echo "Skipped, because a counterpart is missing:"
    sort -u "$PLUMBAGO_SKIPPED" | sed 's/^/  /'
    if [ "${CI:-}" = true ]; then failed=1; fi
fi
exit "$failed"
