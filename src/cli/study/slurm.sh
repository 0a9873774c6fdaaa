#!/usr/bin/env bash
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
# (what each task asks for)

# A study of fedrecsim, for the scheduler Slurm. Written by `fedrecsim study --slurm`; the limits are twice what the runs
# were estimated to take, and ten minutes.
#
#   bash slurm.sh          submits the parts, and a job that puts them together when all of them have ended
#   sbatch slurm.sh        submits the parts alone
#   bash slurm.sh merge    puts together what there is
#
# A part that comes near its time limit stops and queues again, as does one whose node is lost; both go on from their
# checkpoints. One that is cancelled (scancel) leaves its checkpoints and ends. The same commands go on with a study that has ended early.
set -euo pipefail

# (this study)

if [[ "${1:-}" == merge ]]; then
    there=()
    for ((part = 1; part <= parts; part++)); do
        if [[ -d "$folder-part-$part-of-$parts" ]]; then
            there+=("$folder-part-$part-of-$parts")
        fi
    done
    exec "${study[@]}" --out "$folder" --merge "${there[@]}"
fi

if [[ -z "${SLURM_ARRAY_TASK_ID:-}" ]]; then
    array="$(sbatch --parsable "$folder/slurm.sh")"
    sbatch --job-name="$job-merge" --dependency="afterany:${array%%;*}" --ntasks=1 --mem=2000M --time=30:00 \
        --output="${folder//%/%%}/slurm-merge.log" --wrap="bash $(printf %q "$folder/slurm.sh") merge"
    exit
fi

part="$SLURM_ARRAY_TASK_ID"
"${study[@]}" --out "$folder-part-$part-of-$parts" --shard "$part/$parts" "${of_a_part[@]}" &
run=$!
requeue=no
stop() { kill -TERM "$run" 2> /dev/null || true; }
# Slurm sends USR1 two minutes before the time limit, and TERM to a task that is cancelled.
trap 'requeue=yes; stop' USR1
trap 'requeue=no; stop' TERM
code=0
wait "$run" || code=$?
# A signal ends the wait, while the study is still leaving its checkpoints.
while kill -0 "$run" 2> /dev/null; do
    code=0
    wait "$run" || code=$?
done
if [[ $requeue == yes && $code -ne 0 && "${SLURM_RESTART_COUNT:-0}" -lt 100 ]]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$part"
fi
exit "$code"
