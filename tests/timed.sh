#!/usr/bin/env bash
# cargo starts each test binary through this script (test.sh sets it as the runner). PLUMBAGO_LANE names the tests to run, so that
# two runs of cargo share them: `system`, the system tests, or `others`.
case "$1" in
*/system-*) lane=system ;;
*) lane=others ;;
esac
[ "$lane" = "${PLUMBAGO_LANE:-$lane}" ] || exit 0

# libtest then prints how long every test took. The option is unstable; the variable lets a stable libtest
# accept it.
RUSTC_BOOTSTRAP=1 exec "$@" -Z unstable-options --report-time
