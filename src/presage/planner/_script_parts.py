"""The shell text of batch scripts. Braces in it are doubled where Python fills something in."""

from __future__ import annotations

BODY = """\
set -u

# What a program needs to know to go on where the job before it stopped.
export PRESAGE_JOB={job}
export PRESAGE_LEG="${{PRESAGE_LEG:-{number}}}" PRESAGE_LEGS={legs}
export PRESAGE_RUN_FOLDER="${{PRESAGE_RUN_FOLDER:-${{SLURM_SUBMIT_DIR:-$PWD}}/.presage/{folder}}}"
{settings}state="$PRESAGE_RUN_FOLDER/.jobs"
mkdir -p -- "$state" || exit 1
if [ -e "$state/done" ]; then
    echo "presage: the run in $PRESAGE_RUN_FOLDER is done; this job has nothing left to do"
    echo "presage: to begin anew, remove that folder, or plan it under another name"
    exit 0
fi
if [ "$(cat -- "$state/stretch" 2>/dev/null || echo 0)" -gt {stretch} ]; then
    echo "presage: the run has moved on to other nodes; this job has nothing left to do"
    exit 0
fi
{take_over}echo {stretch} > "$state/stretch"
echo "${{SLURM_JOB_ID:-}}" > "$state/running"
if [ -n "$(find "$PRESAGE_RUN_FOLDER" -mindepth 1 -path "$state" -prune -o -mindepth 1 -print -quit)" ]; then
    export PRESAGE_RESUME=1
else
    export PRESAGE_RESUME=0
fi
{chain}
# {warning} s before its limit Slurm sends USR1 to this shell, which tells the program to save and stop.
told=0
program=
tell_to_save() {{
    told=1
    [ -n "$program" ] && kill -USR1 "$program" 2>/dev/null
}}
# TERM without it is a cancelled job, whose successor should not run, or a requeued one, which will submit another.
called_off() {{
    if [ "$told" -eq 0 ] && [ -n "$successor" ]; then
        scancel -- "$successor"
        rm -f -- "$state/after-$PRESAGE_LEG"
        successor=
    fi
    tell_to_save
}}
trap tell_to_save USR1
trap called_off TERM

{command} &
program=$!
while :; do
    wait "$program"
    status=$?
    kill -0 "$program" 2>/dev/null || break
done
if [ "$told" -eq 1 ] || [ "$status" -eq {to_be_continued} ]; then
    echo "presage: saved and stopped; the next job goes on from $PRESAGE_RUN_FOLDER"
elif [ "$status" -eq 0 ]; then
    : > "$state/done"
    [ -n "$successor" ] && scancel -- "$successor"
fi
exit "$status"
"""

TAKE_OVER = """\
# The job on lesser nodes saves and stops before this one goes on from its checkpoint.
before="${PRESAGE_TAKES_OVER:-$(cat -- "$state/running" 2>/dev/null)}"
if [ -n "$before" ] && [ "$before" != "${SLURM_JOB_ID:-}" ]; then
    scancel --signal=USR1 --batch -- "$before"
    for _ in $(seq 120); do
        [ -z "$(squeue --noheader --jobs="$before" 2>/dev/null)" ] && break
        sleep "${PRESAGE_POLL_S:-5}"
    done
fi
"""

NO_CHAIN = """\
successor=
"""

CHAIN = """\
# Its successor waits in the queue meanwhile. A job that was requeued has one already.
successor="$(cat -- "$state/after-$PRESAGE_LEG" 2>/dev/null)"
if [ -z "$successor" ] && [ "$PRESAGE_LEG" -lt {last} ]; then
    next=$((PRESAGE_LEG + 1))
    options=(--parsable --dependency="afterany:$SLURM_JOB_ID")
    [ "$next" -eq {last} ] && options+=(--time={last_time})
    if successor="$(PRESAGE_LEG=$next sbatch "${{options[@]}}" -- {file})"; then
        echo "$successor" > "$state/after-$PRESAGE_LEG"
    else
        successor=
        echo "presage: the next job was refused; submit this script again when the job has ended" >&2
    fi
fi
"""
