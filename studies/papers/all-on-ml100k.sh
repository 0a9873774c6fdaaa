#!/bin/sh
# Runs every study of the papers on MovieLens 100K, at one seed and, for FedRec, one fold: the studies with the pool `unrated`
# beside those with `not-in-train`, each with half of the threads, and FedRec's at the end with all of them.
#   studies/papers/all-on-ml100k.sh OUT [fedrecsim, or another command that starts it]
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- fedrecsim
cd "$(dirname "$0")/../.."

# What is freed is soon needed again, so that it does not go back to the system.
export MIMALLOC_PURGE_DELAY=-1
half=$((($(nproc) + 1) / 2))

# study FILE OUT ARGUMENTS...: a study whose runs may come from those in `made`, and whose last words are shown if it fails.
study() {
    file=$1
    folder=$2
    shift 2
    echo "$folder"
    # shellcheck disable=SC2086 # The folders are words of their own.
    "$@" study "$file" --seeds "$seeds" --threads "$threads" --progress off --out "$out/$folder" $arms ${made:+--reuse $made} \
        > "$out/$folder.log" 2>&1 || { status=$?; tail -n 2 "$out/$folder.log" >&2; return $status; }
}

pfedrec="pfedrec-table-2 pfedrec-table-3 pfedrec-table-4 pfedrec-figure-3"
fedrap="fedrap-tables-3-and-4 fedrap-tables-1-5-6 fedrap-figure-5 fedrap-figure-6"

# lane POOL STUDIES COMMAND...: these studies with one pool of negatives, one after another.
lane() {
    pool=$1
    studies=$2
    shift 2
    seeds=1 threads=$half made=''
    for name in $studies; do
        arms=
        ! grep -q 'data=ml-100k' "studies/papers/$name-$pool.toml" || arms="--arms data=ml-100k"
        study "studies/papers/$name-$pool.toml" "$name-$pool" "$@" || failed="${failed:-} $name-$pool"
        made="$made $out/$name-$pool"
    done
    [ -z "${failed:-}" ] || { echo "a run has failed in:$failed" >&2; return 1; }
}

# In another order, so that runs that need much of the memory's speed, as MetaMF's do, have others beside them.
lane unrated "$pfedrec $fedrap" "$@" &
first=$!
status=0
lane not-in-train "$fedrap $pfedrec" "$@" || status=1
wait $first || status=1
seeds=0 threads=$(nproc) made='' arms="--arms data=ml-100k"
study studies/fedrec-results-5-folds.toml fedrec-results "$@" || status=1
exit $status
