#!/usr/bin/env bash
# cargo starts each test binary through this script (test.sh sets it as the runner). libtest then prints
# how long every test took. The option is unstable; the variable lets a stable libtest accept it.
RUSTC_BOOTSTRAP=1 exec "$@" -Z unstable-options --report-time
