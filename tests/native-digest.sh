#!/bin/sh
# Contract 1: a build for this very processor gives the digest of the portable build. Kernels have a fixed lane
# structure and no fused multiply-add, so wider vectors must not change a bit.
#   tests/native-digest.sh [further arguments of `fedrecsim run`]
set -eu
cd "$(dirname "$0")/.."

scenario=scenarios/quickstart.toml
# Enough for every phase of a round, dropouts included.
rounds=10
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT

# digest NAME FLAGS ARGUMENTS...: builds with the compiler flags FLAGS into target/NAME and runs there.
digest() {
    name=$1
    flags=$2
    shift 2
    RUSTFLAGS=$flags cargo build --release --quiet --bin fedrecsim --target-dir "target/$name" >&2
    "target/$name/release/fedrecsim" run "$scenario" --set "training.rounds=$rounds" --json --out "$reports/$name" "$@" |
        sed -n 's/^  "digest": "\(.*\)",$/\1/p'
}

portable=$(digest portable "" "$@")
native=$(digest native "-C target-cpu=native" "$@")
echo "portable build: $portable"
echo "native build:   $native"
if [ -z "$portable" ] || [ "$portable" != "$native" ]; then
    echo "the digests differ: a kernel rounds differently on this processor" >&2
    exit 1
fi
echo "the same"
