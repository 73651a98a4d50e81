#!/usr/bin/env bash
# Runs every test of the workspace against the real counterparts, after getting those that are missing.
#
#   ./test.sh              everything
#   ./test.sh crash        the tests whose name contains "crash"
#
# A test whose counterpart cannot be had here is skipped and named at the end; with CI=true that is a
# failure.
set -euo pipefail
cd "$(dirname "$0")"

tests/install.sh

target="${CARGO_TARGET_DIR:-$PWD/target}"
export PLUMBAGO_BIN="$target/ci/plumbago"
PLUMBAGO_SKIPPED="$(mktemp)"
export PLUMBAGO_SKIPPED
trap 'rm -f "$PLUMBAGO_SKIPPED"' EXIT

# The system tests drive the built daemon; built together with the tests, it shares their libraries.
cargo build --workspace --bins --tests --profile ci --locked

failed=0
cargo test --workspace --profile ci --locked --no-fail-fast -- "$@" || failed=$?

if [ -s "$PLUMBAGO_SKIPPED" ]; then
    echo
    echo "Skipped, because a counterpart is missing:"
    sort -u "$PLUMBAGO_SKIPPED" | sed 's/^/  /'
    if [ "${CI:-}" = true ]; then failed=1; fi
fi
exit "$failed"
