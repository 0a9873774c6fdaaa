#!/bin/sh
# Mutation score: which changes to the code do the tests notice? Needs cargo-mutants (written for version 27).
#   tests/mutants.sh [module ...]     all modules below, or those named
# Prints the score of each module, and the mutants that no test noticed. Stage one runs the unit tests, about four
# seconds a mutant; stage two tries what they let pass against the integration tests, about a minute each.
# A mutant that runs into the time limit counts as noticed, one that does not compile does not count. Mutants that
# change nothing observable are left out, one by one and with the reason, in tests/mutants.toml.
# Fails if a module scores less than 90 %.
set -euf # No file names for the patterns below: they are cargo-mutants' own.
cd "$(dirname "$0")/.."

modules='
calendar   src/sim/calendar/**
fair_link  src/sim/fair_link/**
ledger     src/sim/ledger.rs
network    src/sim/{network.rs,network/**,client.rs,directory.rs,training.rs,broadcast.rs,world.rs}
server     src/sim/{server.rs,server/**,by_user.rs}
checkpoint src/{checkpoint/**,sim/checkpoints.rs}
modes      src/scenario/{modes,participants}.rs
codecs     src/codec/**
split      src/dataset/split.rs
negatives  src/dataset/{negatives,pool,candidates,alias}.rs
ranking    src/model/ranking.rs
math       src/math/mod.rs
kernels    src/model/kernel/**
tables     src/model/{table,row_table,row_index,batch,private}.rs
optimisers src/model/table/update.rs
aggregate  src/model/{aggregate,magnitude}.rs
minibatch  src/method/minibatch.rs
fedrap     src/method/fedrap/**
pfedrec    src/method/pfedrec.rs
fedmf      src/method/fedmf.rs
rng        src/rng.rs
units      src/units.rs
population src/population/**
'
# Seconds a test may take before it counts as stuck: many times what the suites need, as a busy machine wants.
unit_limit=60
integration_limit=900

out=target/mutants
mkdir -p "$out"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/$out/build}" CARGO_PROFILE_DEV_DEBUG=0
# A mutant that allocates without end must not take the machine with it (kB).
ulimit -v 8000000

# files NAME: the file pattern of a module.
files() {
    echo "$modules" | awk -v name="$1" '$1 == name { print $2 }'
}

# mutate ARGUMENTS...: one run over the chosen files.
mutate() {
    status=0
    # shellcheck disable=SC2086 # one word per argument
    cargo mutants --output "$out" --config tests/mutants.toml $patterns "$@" || status=$?
    # 2: some mutants were missed; 3: some ran into the time limit.
    case $status in 0 | 2 | 3) ;; *) exit "$status" ;; esac
}

chosen=${*:-$(echo "$modules" | awk '{ print $1 }')}
patterns=
for module in $chosen; do
    pattern=$(files "$module")
    [ -n "$pattern" ] || { echo "no module is called $module" >&2; exit 1; }
    patterns="$patterns --file $pattern"
done

rm -rf "$out/mutants.out" "$out/mutants.out.old" "$out/caught" "$out/missed"
lists=$out/mutants.out
mutate --timeout "$unit_limit" --cargo-arg=--lib
cat "$lists/caught.txt" "$lists/timeout.txt" > "$out/caught"
cp "$lists/missed.txt" "$out/missed"
if [ -s "$out/missed" ]; then
    # `--iterate` leaves out what is listed as caught; a mutant that was stuck would be stuck again.
    cp "$out/caught" "$lists/caught.txt"
    mutate --iterate --timeout "$integration_limit" --cargo-arg=--test=it
    cat "$lists/caught.txt" "$lists/timeout.txt" >> "$out/caught"
    cp "$lists/missed.txt" "$out/missed"
fi

# count FILE LIST: how many mutants of that source file a list names.
count() {
    grep -c "^$1:" "$2" || true
}

low=0
printf '\n%-12s %7s %7s %7s\n' module viable caught score
for module in $chosen; do
    caught=0
    missed=0
    for file in $(cargo mutants --list-files --config tests/mutants.toml --file "$(files "$module")"); do
        caught=$((caught + $(count "$file" "$out/caught")))
        missed=$((missed + $(count "$file" "$out/missed")))
    done
    viable=$((caught + missed))
    [ "$viable" -gt 0 ] || continue
    printf '%-12s %7d %7d %6d%%\n' "$module" "$viable" "$caught" $((100 * caught / viable))
    [ $((100 * caught)) -ge $((90 * viable)) ] || low=1
done
echo
echo "survivors: $(wc -l < "$out/missed")"
cat "$out/missed"
exit "$low"
