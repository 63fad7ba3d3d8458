# shellcheck shell=sh
# The login hook: brings the scheduler back, should all its jobs be gone (an scancel of everything, a wiped queue).
#
#   echo '. /path/to/login-hook.sh' >>~/.bashrc        (or ~/.zshrc, ~/.profile)
#
# A login waits for nothing: all is done in the background. One stat, of the file whose times say when the scheduler was
# last at work, and until when it may be silent; and five minutes after that, or after the last such look, one at the queue.
# It never starts what was never started, or was ended by `cronhpc stop`; it does nothing inside jobs. After `cronhpc start
# --via login` it calls the ticks, at most one an interval. $CRONHPC names another cronhpc than the one on PATH. (1800:
# clocks may differ by that, core/model/world.py.)

if [ -z "${SLURM_JOB_ID-}${SGE_JOB_SPOOL_DIR-}${PBS_JOBID-}${LSB_JOBID-}" ]; then
  (
    {
      cron=${CRONHPC_DIR:-${WORK:-$HOME}/cron}
      due=$(stat -c '%X %Y' -- "$cron/scheduler/due") && now=$(date +%s) &&
        { [ "${due#* }" -lt "$now" ] || [ "${due% *}" -gt $((now + 1800)) ] ||
          { [ $((now - ${due% *})) -gt 300 ] && [ -z "$(find "$cron/scheduler/seen" -mmin -5)" ]; }; } &&
        timeout 120 "${CRONHPC:-cronhpc}" start --if-stale --dir "$cron"
    } </dev/null >/dev/null 2>&1 &
  )
fi
