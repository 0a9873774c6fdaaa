#!/bin/sh
# Contract 1: one digest from three builds: the default one, one for this very processor, and one whose kernels have
# no copies for wider vectors to choose from. Kernels have a fixed lane structure and no fused multiply-add, so the
# instruction set must not change a bit. The scenarios reach the kernels of every method, and those of noise.
#   tests/portable-digests.sh [further arguments of `fedrecsim run`]
set -eu
cd "$(dirname "$0")/.."

base=scenarios/quickstart.toml
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT

# build NAME FLAGS: builds with the compiler flags FLAGS into target/NAME.
build() {
    RUSTFLAGS=$2 cargo build --release --locked --quiet --bin fedrecsim --target-dir "target/$1"
}

# digest BUILD ARGUMENTS...: the digest of ten rounds, enough for every phase of a round, dropouts included.
digest() {
    build=$1
    shift
    "target/$build/release/fedrecsim" run "$base" --set training.rounds=10 --json --overwrite \
        --out "$reports/$build" "$@" | sed -n 's/^  "digest": "\(.*\)",$/\1/p'
}

# compare NAME ARGUMENTS...: one scenario in all builds.
compare() {
    name=$1
    shift
    default=$(digest default "$@")
    echo "$name: $default"
    for build in native no-dispatch; do
        other=$(digest "$build" "$@")
        if [ -z "$default" ] || [ "$other" != "$default" ]; then
            echo "$name: the $build build gives ${other:-no digest}: a kernel depends on the instruction set" >&2
            exit 1
        fi
    done
}

build default ""
build native "-C target-cpu=native"
build no-dispatch "--cfg fedrecsim_no_simd_dispatch"

compare "FedRAP, published code" "$@"
compare "FedRAP, paper" --set 'method.fedrap={ objective = "paper", learning_rate_network = 0.01, regularizer = "l1" }' "$@"
compare "FedRAP, L2, k = 19, batches" --set 'method.fedrap={ regularizer = "l2", latent_dimension = 19, batch_size = 64, learning_rate_tables = 20 }' "$@"
compare "PFedRec" --set 'method={ pfedrec = {} }' "$@"
compare "FedMF, k = 100" --set 'method={ fedmf = { latent_dimension = 100 } }' "$@"
for method in fedncf fedrecon feddad colr gpfedrec fedca fedem fedea cofedrec cgfedrec fedcia fedcia-gsp fedpeft lightfr adafedrec metamf fcf fcf-bts fedgram fedspec privirec fedtide fedpergnn centrap mf ease ials itemknn bpr-mf ncf; do
    compare "$method" --set "method={ $method = {} }" "$@"
done
compare "FedDAE" --set 'method={ feddae = { latent_dimension = 8, outer_units = 40, inner_units = 19, gate_units = 8 } }' "$@"
compare "LightGCN, k = 119" --set 'method={ lightgcn = { latent_dimension = 119 } }' "$@"
compare "Laplace noise" --set 'privacy={ laplace = { scale = 0.1 } }' --set 'codec.uplink="dense-f32"' "$@"
compare "FedRAP, noise" --set 'method.fedrap.noise={ at = "gradient", clip_norm = 0.1, multiplier = 1.0 }' "$@"
echo "the default, native and no-dispatch builds agree"
