#!/usr/bin/env bash
# Runs the fuzz targets under libFuzzer. Needs a stable Rust compiler and a C++ compiler.
#
#   fuzz/run.sh                each target for a minute
#   fuzz/run.sh 600 pickle     one target for ten minutes
#
# Inputs that reach new code are kept in fuzz/corpus, inputs that make a target fail in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")"

seconds="${1:-60}"
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

# The flags that cargo-fuzz would use; cargo-fuzz itself needs a nightly compiler. The address sanitizer is not used,
# because the code under test has no unsafe blocks.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions -Coverflow-checks \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
host="$(rustc -vV | sed -n 's/^host: //p')"
# With an explicit target, build scripts and procedural macros are built without these flags.
cargo build --release --bins --target "$host" --locked

for target in "${targets[@]}"; do
    echo "== $target"
    mkdir -p "corpus/$target" "artifacts/$target"
    "$CARGO_TARGET_DIR/$host/release/$target" "corpus/$target" -max_total_time="$seconds" -max_len=4096 \
        -rss_limit_mb=1500 -timeout=20 -artifact_prefix="artifacts/$target/" -print_final_stats=1 -verbosity=0
done
