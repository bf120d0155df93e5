# SPDX-License-Identifier: MPL-2.0
# Sourced by bash scripts: shows on stderr what a long command does, as its log tells.
#
#     show_progress LOG NAME [BEFORE]
#     COMMAND >LOG 2>&1 </dev/null
#     end_progress
#
# In the log, a line "== STEP" begins a step; a line "[N/M] ITEM", as ninja and swift build print it, is the item that
# the step is at. A terminal shows one line that moves: "NAME: STEP, SECONDS s, [N/M] ITEM", with BEFORE until the log
# has a step. Anything else gets one line per step: "== NAME: STEP". A log without steps and items shows nothing.

progress=

show_progress() {
    # A signal from the keyboard ends the command; the line goes when end_progress is called.
    exec {progress_end}> >(
        trap '' INT TERM HUP
        follow_progress "$@"
    )
    progress=$!
}

end_progress() {
    [ -n "$progress" ] || return 0
    # The follower is gone if stderr was closed.
    (trap '' PIPE && echo >&"$progress_end") 2>/dev/null || true
    exec {progress_end}>&-
    wait "$progress" || true
    progress=
}

# LOG NAME [BEFORE]: runs until stdin has a line or ends. Reads the log each second, and at the end.
follow_progress() {
    local log=$1 name=$2 before=${3-} begun=$SECONDS known=0 shown=false moves=false status=142
    local steps step item line lines
    if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then moves=true; fi
    while :; do
        mapfile -t lines < <(grep -aE '^(== .|\[[0-9]+/[0-9]+\] .)' -- "$log" 2>/dev/null)
        steps=0 step=$before item=
        for line in "${lines[@]}"; do
            line=${line//[[:cntrl:]]/}
            if [ "${line:0:1}" = '[' ]; then
                item=$line
                continue
            fi
            step=${line#== } item='' steps=$((steps + 1))
            if [ "$steps" -gt "$known" ] && ! "$moves"; then printf '== %s: %s\n' "$name" "$step" >&2; fi
        done
        known=$steps
        [ "$status" -gt 128 ] || break
        if "$moves" && [ -n "$step$item" ]; then
            # The terminal cuts what is too long for it.
            printf '\r\e[K\e[?7l%s, %d s%s\e[?7h' "$name${step:+: $step}" $((SECONDS - begun)) "${item:+, $item}" >&2
            shown=true
        fi
        status=0
        read -rt 1 line || status=$?
    done
    if "$shown"; then printf '\r\e[K' >&2; fi
}
