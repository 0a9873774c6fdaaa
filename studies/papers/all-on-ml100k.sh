#!/bin/sh
# Runs every study of the papers on MovieLens 100K, at one seed and, for FedRec, one fold: the studies with the pool `unrated`
# beside those with `not-in-train`, each with half of the threads, and FedRec's at the end with all of them.
#   studies/papers/all-on-ml100k.sh OUT [fedrecsim, or another command that starts it]
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- fedrecsim
cd "$(dirname "$0")/../.."

half=$((($(nproc) + 1) / 2))

# study FILE OUT ARGUMENTS...: a study whose runs may come from those in `made`, and says what it prints if it fails.
study() {
    file=$1
    folder=$2
    shift 2
    echo "$folder"
    # shellcheck disable=SC2086 # The folders are words of their own.
    "$@" study "$file" --seeds "$seeds" --threads "$threads" --progress off --out "$out/$folder" $arms ${made:+--reuse $made} \
        > "$out/$folder.log" 2>&1 || { status=$?; cat "$out/$folder.log"; return $status; }
}

# lane POOL COMMAND...: all studies with one pool of negatives, one after another.
lane() {
    pool=$1
    shift
    seeds=1 threads=$half made=
    for name in pfedrec-table-2 pfedrec-table-3 pfedrec-table-4 pfedrec-figure-3 fedrap-tables-3-and-4 \
        fedrap-tables-1-5-6 fedrap-figure-5 fedrap-figure-6; do
        arms=
        ! grep -q 'data=ml-100k' "studies/papers/$name-$pool.toml" || arms="--arms data=ml-100k"
        study "studies/papers/$name-$pool.toml" "$name-$pool" "$@" || failed="${failed:-} $name-$pool"
        made="$made $out/$name-$pool"
    done
    [ -z "${failed:-}" ] || { echo "a run has failed in:$failed" >&2; return 1; }
}

lane unrated "$@" &
first=$!
status=0
lane not-in-train "$@" || status=1
wait $first || status=1
seeds=0 threads=$(nproc) made='' arms="--arms data=ml-100k"
study studies/fedrec-results-5-folds.toml fedrec-results "$@" || status=1
exit $status
