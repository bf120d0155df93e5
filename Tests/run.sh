#!/usr/bin/env bash
# SPDX-License-Identifier: MPL-2.0
# Runs every check and test. Needs nothing but Debian and the network: what is missing gets installed first.
# Tests/suites/README.md says what a suite is. The last line is the result: N passed, N failed, N skipped.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
repository=$PWD
helpers=$repository/meson-helpers
. "$helpers/find-swift.sh"

usage() {
    cat <<EOF
Usage: Tests/run.sh [--long] [--only PATTERN] [--list]

  --long           also the suites of Tests/suites/long
  --only PATTERN   only the steps whose names match the extended regular expression
  --list           name the steps

LATCHKEY_BUILD           the build folder (build)
LATCHKEY_JOBS            parallel jobs of the Swift builds (all processors)
LATCHKEY_SUITE_TIMEOUT   seconds that a suite may take (1500; 3600 with --long)
EOF
}

long=false pattern=. list=false
while [ $# -gt 0 ]; do
    case $1 in
        --long) long=true ;;
        --only)
            [ $# -ge 2 ] || { usage >&2 && exit 2; }
            pattern=$2
            shift
            ;;
        --list) list=true ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    shift
done

shopt -s nullglob
suites=()
for suite in Tests/suites/[0-9]*; do suites+=("$suite"); done
limit=${LATCHKEY_SUITE_TIMEOUT:-1500}
if "$long"; then
    limit=${LATCHKEY_SUITE_TIMEOUT:-3600}
    for suite in Tests/suites/long/[0-9]*; do suites+=("$suite"); done
fi
steps=(lint layers core swift shipping)
for suite in "${suites[@]}"; do steps+=("${suite#Tests/suites/}"); done

grep -qE -- "$pattern" </dev/null
if [ $? -gt 1 ]; then usage >&2 && exit 2; fi
selected=()
for step in "${steps[@]}"; do
    if grep -qE -- "$pattern" <<<"$step"; then selected+=("$step"); fi
done
if "$list"; then
    [ "${#selected[@]}" -eq 0 ] || printf '%s\n' "${selected[@]}"
    exit 0
fi

build=${LATCHKEY_BUILD:-$repository/build}
mkdir -p "$build/test-logs" || exit 1
build=$(cd "$build" && pwd)
export LATCHKEY_BUILD=$build
logs=$build/test-logs
scratch=$build/swift-tests
results=$logs/results
work=$(mktemp -d)
running=
ahead=()
: >"$results"

# What is still running of the current command, all in one process group, ends with us.
clean_up() {
    if [ -n "$running" ]; then kill -TERM -- "-$running" 2>/dev/null; fi
    for group in "${ahead[@]}"; do kill -TERM -- "-$group" 2>/dev/null; done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

is_selected() {
    local step
    for step in "${selected[@]}"; do
        if [ "$step" = "$1" ]; then return 0; fi
    done
    return 1
}

# Takes result lines from stdin: keeps all, shows what did not pass.
record() {
    tee -a "$results" | grep -v '^PASS ' || true
}

title() { printf '== %s (after %d s)\n' "$1" "$SECONDS"; }

show_log() {
    printf -- '---- the end of %s\n' "$1"
    tail -n "${2:-40}" "$1"
    printf -- '----\n'
}

# Runs a command in a process group of its own for at most so many seconds, its output in a file. Whatever it leaves
# behind is ended.
limited() {
    local seconds=$1 log=$2 status
    shift 2
    timeout --kill-after=10 "$seconds" "$@" >"$log" 2>&1 </dev/null &
    running=$!
    wait "$running"
    status=$?
    kill -TERM -- "-$running" 2>/dev/null
    running=
    return "$status"
}

# One check that passes or fails as a whole.
check() {
    local name=$1 seconds=$2
    shift 2
    if limited "$seconds" "$logs/$name.log" "$@"; then
        echo "PASS $name" | record
    else
        show_log "$logs/$name.log"
        echo "FAIL $name: see $logs/$name.log" | record
        return 1
    fi
}

finish() {
    local passed failed skipped
    passed=$(grep -c '^PASS ' "$results")
    failed=$(grep -c '^FAIL ' "$results")
    skipped=$(grep -c '^SKIP ' "$results")
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    if [ "$failed" -gt 0 ] || [ "$passed" -eq 0 ]; then exit 1; fi
    exit 0
}

jobs=()
if [ "${LATCHKEY_JOBS:-0}" -gt 0 ]; then jobs=(--jobs "$LATCHKEY_JOBS"); fi

# The machine's own settings and plug-ins must not decide what a test sees.
isolated=(env -u LATCHKEY_CONFIG -u GST_PLUGIN_PATH -u GST_PLUGIN_PATH_1_0 -u GST_REGISTRY_1_0 -u GST_DEBUG
    XDG_CONFIG_HOME="$work/config" LC_ALL=C.UTF-8)

title "What the tests need"
if ! "$helpers/install-deps" --for-tests; then
    echo "FAIL dependencies: meson-helpers/install-deps --for-tests ends with an error" | record
    finish
fi
find_swift || true

if is_selected lint; then
    title lint
    places=()
    for place in Package.swift Sources gst-plugin Tests examples; do
        if [ -e "$place" ]; then places+=("$place"); fi
    done
    check lint 300 swift format lint --strict --parallel --recursive "${places[@]}"
fi

if is_selected layers; then
    title layers
    check layers 300 "$helpers/check_imports.py"
fi

# The library without GStreamer. The same scratch folder as the tests: what is compiled here is not compiled again.
if is_selected core; then
    title "core (LATCHKEY_NO_GSTREAMER=1)"
    check core 1500 env LATCHKEY_NO_GSTREAMER=1 \
        swift build "${jobs[@]}" --scratch-path "$scratch"
fi

suite_selected=false
for suite in "${suites[@]}"; do
    if is_selected "${suite#Tests/suites/}"; then suite_selected=true; fi
done

# NICE CLASS COMMAND…: runs the commands one after the other, of what everybody else leaves of the processors. In a
# session of its own, since the kernel divides the processors among sessions first.
build_ahead() {
    local nice=$1 class=$2 log
    shift 2
    log=$logs/build-ahead-$nice.log
    # shellcheck disable=SC2016
    setsid nice -n "$nice" chrt "$class" 0 bash -c '
        { echo "$1" >/proc/self/autogroup; } 2>/dev/null
        shift
        for build; do $build; done' ahead "$nice" "$@" >"$log" 2>&1 </dev/null &
    ahead+=($!)
}

# What later steps need is built while earlier ones run. Whether that succeeds is found out by the step itself, which
# waits for it where it is not ready.
if [ "${#selected[@]}" -gt 1 ]; then
    if is_selected shipping || "$suite_selected"; then build_ahead 10 --batch "meson-helpers/with-plugin true"; fi
    builds=()
    for suite in 40-asan 41-tsan; do
        if is_selected "$suite"; then builds+=("Tests/suites/$suite --build"); fi
    done
    if [ "${#builds[@]}" -gt 0 ]; then build_ahead 19 --idle "${builds[@]}"; fi
fi

run_swift_tests() {
    check swift-build 1500 swift build "${jobs[@]}" --build-tests --scratch-path "$scratch" || return
    # Writes the registry, so that what it says about the machine's plug-ins is no failure of a test.
    local environment=("${isolated[@]}" GST_REGISTRY="$work/registry.bin")
    if ! "${environment[@]}" gst-inspect-1.0 >"$logs/registry.log" 2>&1 </dev/null; then
        show_log "$logs/registry.log"
        echo "FAIL swift: gst-inspect-1.0 does not work" | record
        return
    fi
    . Tests/swift-groups.sh
    for_each_test_group run_test_group
}

run_group_once() {
    rm -f "$work/events"
    limited 900 "$logs/swift-$group.log" "${environment[@]}" G_DEBUG=fatal-warnings \
        swift test --skip-build --scratch-path "$scratch" --event-stream-output-path "$work/events" "$@"
    status=$?
}

# NAME ARGUMENTS…: the tests that the arguments choose, in one process.
run_test_group() {
    local group=$1 status
    shift
    run_group_once "$@"
    # GStreamer's own demuxer fails assertions now and then when it is stopped amid a download, with clear media too; that
    # ends the whole process.
    if [ "$status" -ne 0 ] && grep -q '^ERROR:\.\./ext/adaptivedemux2/' "$logs/swift-$group.log"; then
        echo "NOTE swift $group runs again after: $(grep -m 1 '^ERROR:\.\./ext/' "$logs/swift-$group.log")"
        run_group_once "$@"
    fi
    if ! Tests/results.py swift "$work/events" "$logs/swift-$group.log" >"$work/lines"; then
        echo "FAIL swift $group: its report cannot be read" >>"$work/lines"
    elif ! grep -q '^PASS ' "$work/lines"; then
        echo "FAIL swift $group: no test passed" >>"$work/lines"
    elif [ "$status" -ne 0 ] && ! grep -q '^FAIL ' "$work/lines"; then
        echo "FAIL swift $group: swift test ends with status $status; see $logs/swift-$group.log" >>"$work/lines"
    fi
    if grep -q '^FAIL ' "$work/lines"; then show_log "$logs/swift-$group.log"; fi
    record <"$work/lines"
}
if is_selected swift; then
    title swift
    run_swift_tests
fi

# The shipped form, for the checks and for the suites.
built=true
if is_selected shipping || "$suite_selected"; then
    title "the build that ships"
    check build 1500 "$helpers/with-plugin" true || built=false
fi

if is_selected shipping && "$built"; then
    title shipping
    rm -f "$build/meson-logs/testlog.json"
    limited 600 "$logs/shipping.log" meson test -C "$build" --no-rebuild
    if ! Tests/results.py meson "$build/meson-logs/testlog.json" >"$work/lines" || [ ! -s "$work/lines" ]; then
        show_log "$logs/shipping.log"
        echo "FAIL shipping: meson test wrote no report; see $logs/shipping.log" >>"$work/lines"
    fi
    record <"$work/lines"
fi

run_suite() {
    local suite=$1 name=${1#Tests/suites/} status
    local log=$logs/${name//\//-}.log
    if [ ! -f "$suite" ] || [ ! -x "$suite" ]; then
        echo "FAIL $name: not an executable file" | record
        return
    fi
    if ! "$built"; then
        echo "FAIL $name: not run, the build failed" | record
        return
    fi
    mkdir -p "$work/suite"
    limited "$limit" "$log" "${isolated[@]}" TMPDIR="$work/suite" "$helpers/with-plugin" "$suite"
    status=$?
    rm -rf "$work/suite"
    grep -E '^(PASS .|FAIL .|SKIP .+: .)' "$log" | sed "s|^\(....\) |\1 $name/|" >"$work/lines"
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        echo "FAIL $name: took more than $limit s, or was killed" >>"$work/lines"
    elif [ "$status" -ne 0 ] && ! grep -q '^FAIL ' "$work/lines"; then
        echo "FAIL $name: ends with status $status" >>"$work/lines"
    elif [ ! -s "$work/lines" ]; then
        echo "FAIL $name: printed no result" >>"$work/lines"
    fi
    if grep -q '^FAIL ' "$work/lines"; then show_log "$log"; fi
    grep '^NOTE ' "$log"
    record <"$work/lines"
}
for suite in "${suites[@]}"; do
    name=${suite#Tests/suites/}
    if is_selected "$name"; then
        title "$name"
        run_suite "$suite"
    fi
done

finish
