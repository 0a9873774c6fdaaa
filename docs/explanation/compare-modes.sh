#!/usr/bin/env bash
# Virtual time and bytes until FedMF reaches two accuracies on MovieLens 100K over slow mobile links, by how rounds are
# run. Prints a Markdown table; means over the seeds, and "not reached" if any of them does not get there.
#
#   docs/explanation/compare-modes.sh [SEEDS]        # "1 2 3" by default; about two minutes
#
# Every mode gets 60,000 updates (over-selection averages as many and starts more) and is looked at after every 500.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds="${1:-1 2 3}"
targets="0.50 0.58"
fedrecsim="${FEDRECSIM:-target/release/fedrecsim}"
[[ -x "$fedrecsim" ]] || cargo build --release
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

common=(--set dataset.negatives.pool=not-in-train --set network.preset=mobile-pessimistic --set devices.preset=phone-lognormal)
cohort=(--set training.participation.cohort=100 --set training.rounds=600 --set evaluation.every_rounds=5)
declare -A modes=(
    [1 synchronous]="${cohort[*]}"
    [2 over-selection, 1.3]="${cohort[*]} --set training.mode.over-selection.factor=1.3"
    [3 semi-synchronous, 2 s]="${cohort[*]} --set training.mode.semi-synchronous.deadline_s=2"
    [4 semi-synchronous, 1 s]="${cohort[*]} --set training.mode.semi-synchronous.deadline_s=1"
    [5 FedBuff, 100 at once, buffer 20]="--set training.rounds=3000 --set evaluation.every_rounds=25
        --set training.mode.fedbuff.concurrency=100 --set training.mode.fedbuff.buffer=20
        --set training.mode.fedbuff.maximum_staleness=20"
)

echo "| | HR@10 .50: time | up | down | HR@10 .58: time | up | down | best HR@10 |"
echo "|---|---:|---:|---:|---:|---:|---:|---:|"
printf '%s\n' "${!modes[@]}" | sort | while read -r mode; do
    for seed in $seeds; do
        # The options hold no blanks within.
        # shellcheck disable=SC2086
        "$fedrecsim" run scenarios/ml100k-fedmf.toml "${common[@]}" ${modes[$mode]} --seed "$seed" \
            --json --overwrite --out "$work/$seed" < /dev/null > /dev/null
    done
    awk -F, -v mode="${mode#* }" -v targets="$targets" '
        FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; runs++; wanted = split(targets, target, " "); delete done; next }
        $column["test_hr@10"] != "" {
            hr = $column["test_hr@10"]
            if (hr > best[runs]) best[runs] = hr
            for (t = 1; t <= wanted; t++) if (!(t in done) && hr >= target[t]) {
                done[t] = 1; reached[t]++
                time[t] += $column["virtual_time_s"]
                up[t] += $column["cumulative_up_sent_bytes"]; down[t] += $column["cumulative_down_sent_bytes"]
            }
        }
        END {
            line = "| " mode
            for (t = 1; t <= wanted; t++) line = line (reached[t] == runs \
                ? sprintf(" | %.0f s | %.2f GB | %.2f GB", time[t] / runs, up[t] / runs / 1e9, down[t] / runs / 1e9) \
                : " | not reached | - | -")
            for (r = 1; r <= runs; r++) sum += best[r]
            print line sprintf(" | %.3f |", sum / runs)
        }' $(for seed in $seeds; do echo "$work/$seed/rounds.csv"; done)
done
