#!/usr/bin/env bash
# SPDX-License-Identifier: MPL-2.0
# Runs every check and test. Needs nothing but Debian and the network: what is missing gets installed first.
# Tests/suites/README.md says what a suite is. The last lines are the result for each version of GStreamer and for all of
# them: N passed, N failed, N skipped.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
repository=$PWD
helpers=$repository/meson-helpers
. "$helpers/find-swift.sh"
. "$helpers/progress.sh"

usage() {
    cat <<EOF
Usage: Tests/run.sh [--long] [--on RELEASE]... [--everywhere] [--only PATTERN] [--list]

  --long           also the suites of Tests/suites/long
  --on RELEASE     the suites of pipelines in a folder of that Debian release (trixie or forky), with the binaries that
                   are built here; nothing else
  --everywhere     everything here, and the suites of pipelines on each release. If the folder of a release cannot be
                   made, its suites count as skipped
  --only PATTERN   only the steps whose names match the extended regular expression
  --list           name the steps

LATCHKEY_BUILD           the build folder (build)
LATCHKEY_JOBS            parallel jobs of the Swift builds (all processors)
LATCHKEY_SUITE_TIMEOUT   seconds that a suite may take (1500; 3600 with --long)
EOF
}

# The releases of Debian besides the one here, each with the version of GStreamer that it is supported for.
declare -A supported=([trixie]=1.26 [forky]=1.28)

long=false pattern=. list=false here=true everywhere=false releases=()
while [ $# -gt 0 ]; do
    case $1 in
        --long) long=true ;;
        --on)
            [ $# -ge 2 ] && [ -n "${supported[$2]:-}" ] || { usage >&2 && exit 2; }
            here=false
            releases+=("$2")
            shift
            ;;
        --everywhere) everywhere=true ;;
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

if "$everywhere"; then here=true releases=(trixie forky); fi

shopt -s nullglob
suites=()
for suite in Tests/suites/[0-9]*; do suites+=("$suite"); done
limit=${LATCHKEY_SUITE_TIMEOUT:-1500}
if "$long"; then
    limit=${LATCHKEY_SUITE_TIMEOUT:-3600}
    for suite in Tests/suites/long/[0-9]*; do suites+=("$suite"); done
fi
steps=()
if "$here"; then
    steps=(lint commits layers first-calls core swift shipping)
    for suite in "${suites[@]}"; do steps+=("${suite#Tests/suites/}"); done
    # It compares with the results of all that runs here, so it is no part of a run of some steps.
    if [ "$pattern" = . ]; then steps+=(manual); fi
fi
# The suites of pipelines are those from 10 to 39.
pipelines=(Tests/suites/[1-3][0-9]-*)
for release in "${releases[@]}"; do
    for suite in "${pipelines[@]}"; do steps+=("$release/${suite#Tests/suites/}"); done
done

grep -qE -- "$pattern" </dev/null
if [ $? -gt 1 ]; then usage >&2 && exit 2; fi
selected=()
for step in "${steps[@]}"; do
    # A pattern may name a suite alone, or one on a release.
    if grep -qE -- "$pattern" <<<"$step"$'\n'"${step#*/}"; then selected+=("$step"); fi
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
# One file of result lines for each version of GStreamer.
results=$logs/results-here
work=$(mktemp -d)
running=
ahead=()
rm -f "$logs"/results-*

# What is still running of the current command, all in one process group, ends with us.
clean_up() {
    end_progress
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

# Takes result lines from stdin: keeps all in $results, shows what did not pass.
record() {
    tee -a "$results" | grep -v '^PASS ' || true
}

title() {
    local number place=
    for number in "${!selected[@]}"; do
        if [ "${selected[number]}" = "${1%% *}" ]; then place="$((number + 1)) of ${#selected[@]}, "; fi
    done
    printf '== %s (%safter %d s)\n' "$1" "$place" "$SECONDS"
}

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
    : >"$log"
    show_progress "$log" "$(basename "$log" .log)" running
    timeout --kill-after=10 "$seconds" "$@" >"$log" 2>&1 </dev/null &
    running=$!
    wait "$running"
    status=$?
    end_progress
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

gstreamer_version() { "$@" gst-inspect-1.0 --version 2>/dev/null | sed -n 's/^GStreamer //p'; }

# Prints once more what failed, the counts for each version, and those of all, by which the run passes or fails.
finish() {
    local file place version passed failed skipped all=(0 0 0)
    if cat "$logs"/results-* | grep '^FAIL ' >"$work/failures"; then
        title "What failed"
        cut -c 1-600 "$work/failures"
    fi
    for file in "$logs"/results-*; do
        place=${file#"$logs/results-"}
        passed=$(grep -c '^PASS ' "$file")
        failed=$(grep -c '^FAIL ' "$file")
        skipped=$(grep -c '^SKIP ' "$file")
        version=$(cat "$work/version-$place" 2>/dev/null)
        printf 'GStreamer %s (%s): %d passed, %d failed, %d skipped' "${version:-unknown}" "$place" \
            "$passed" "$failed" "$skipped"
        # Debian testing goes on to newer versions.
        if [ "$place" = forky ] && [ -n "$version" ] && [[ $version != "${supported[forky]}".* ]]; then
            printf ' (not counted: supported is %s)\n' "${supported[forky]}"
            continue
        fi
        printf '\n'
        all=($((all[0] + passed)) $((all[1] + failed)) $((all[2] + skipped)))
    done
    printf '%d passed, %d failed, %d skipped\n' "${all[@]}"
    if [ "${all[1]}" -gt 0 ] || [ "${all[0]}" -eq 0 ]; then exit 1; fi
    exit 0
}

jobs=()
if [ "${LATCHKEY_JOBS:-0}" -gt 0 ]; then jobs=(--jobs "$LATCHKEY_JOBS"); fi

# The machine's own settings and plug-ins must not decide what a test sees.
isolated=(env -u LATCHKEY_CONFIG -u GST_PLUGIN_PATH -u GST_PLUGIN_PATH_1_0 -u GST_REGISTRY_1_0 -u GST_DEBUG
    XDG_CONFIG_HOME="$work/config" XDG_STATE_HOME="$work/state" LC_ALL=C.UTF-8)

title "What the tests need"
if ! "$helpers/install-deps" --for-tests; then
    echo "FAIL dependencies: meson-helpers/install-deps --for-tests ends with an error" | record
    finish
fi
find_swift || true
gstreamer_version >"$work/version-here"
"$helpers/swift_dependencies.py" use
export LATCHKEY_PROGRAMS=1

if is_selected lint; then
    title lint
    places=()
    for place in Package.swift Sources gst-plugin Tests examples; do
        if [ -e "$place" ]; then places+=("$place"); fi
    done
    check lint 300 swift format lint --strict --parallel --recursive "${places[@]}"
fi

if is_selected commits; then
    title commits
    limited 120 "$logs/commits.log" .ci/hooks/commit-msg --history
    case $? in
        0) echo "PASS commits" ;;
        77) echo "SKIP commits: $(cat "$logs/commits.log")" ;;
        *) show_log "$logs/commits.log" && echo "FAIL commits: see $logs/commits.log" ;;
    esac | record
fi

if is_selected layers; then
    title layers
    check layers 300 "$helpers/check_imports.py"
fi

if is_selected first-calls; then
    title first-calls
    check first-calls 60 "$helpers/check_first_calls.py"
fi

# The library without GStreamer. The same scratch folder as the tests: what is compiled here is not compiled again.
if is_selected core; then
    title "core (LATCHKEY_NO_GSTREAMER=1)"
    check core 1500 env LATCHKEY_NO_GSTREAMER=1 \
        swift build "${jobs[@]}" --scratch-path "$scratch"
fi

suite_selected=false
for step in "${selected[@]}"; do
    if [[ $step == *[0-9]-* ]]; then suite_selected=true; fi
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
    # GStreamer's own demuxer of 1.22 fails assertions now and then when it is stopped amid a download, with clear media too;
    # that ends the whole process.
    if [ "$status" -ne 0 ] && [[ $(<"$work/version-here") == 1.22.* ]] && grep -q '^ERROR:\.\./ext/adaptivedemux2/' "$logs/swift-$group.log"; then
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

# STEP SUITE COMMAND…: runs a suite, by that command if there is one.
run_suite() {
    local step=$1 suite=$2 status
    local log=$logs/${step//\//-}.log
    shift 2
    if [ ! -f "$suite" ] || [ ! -x "$suite" ]; then
        echo "FAIL $step: not an executable file" | record
        return
    fi
    if ! "$built"; then
        echo "FAIL $step: not run, the build failed" | record
        return
    fi
    mkdir -p "$work/suite"
    TMPDIR=$work/suite limited "$limit" "$log" "$@" "${isolated[@]}" "$helpers/with-plugin" "$suite"
    status=$?
    rm -rf "$work/suite"
    grep -E '^(PASS .|FAIL .|SKIP .+: .)' "$log" | sed "s|^\(....\) |\1 $step/|" >"$work/lines"
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        echo "FAIL $step: took more than $limit s, or was killed" >>"$work/lines"
    elif [ "$status" -ne 0 ] && ! grep -q '^FAIL ' "$work/lines"; then
        echo "FAIL $step: ends with status $status" >>"$work/lines"
    elif [ ! -s "$work/lines" ]; then
        echo "FAIL $step: printed no result" >>"$work/lines"
    fi
    if grep -q '^FAIL ' "$work/lines"; then show_log "$log"; fi
    grep '^NOTE ' "$log"
    record <"$work/lines"
}
for suite in "${suites[@]}"; do
    step=${suite#Tests/suites/}
    if is_selected "$step"; then
        title "$step"
        # SwiftPM's lock lies in TMPDIR, which a suite has of its own: it would build beside the build ahead.
        if [[ $step == 4[01]-* ]] && [ "${#ahead[@]}" -gt 0 ]; then wait "${ahead[@]}"; fi
        run_suite "$step" "$suite"
    fi
done

# What the manuals promise has tests, and they have passed in this run.
if is_selected manual; then
    title manual
    check manual 60 "$helpers/check_manual.py" --repository "$repository" --results "$results"
fi

# RELEASE: runs the selected suites in its folder.
run_release() {
    local release=$1 result=FAIL suite wanted=()
    local log=$logs/$release-folder.log
    # Media that are no part of the repository, if they are beside it.
    local status folder=(env "LATCHKEY_DEBIAN_SHOW=$build" Tests/debian-folder "$release")
    if [ -d "$repository/../shared/corpus" ]; then
        folder[1]+=:$(realpath "$repository/../shared/corpus")
    fi
    for suite in "${pipelines[@]}"; do
        if is_selected "$release/${suite#Tests/suites/}"; then wanted+=("$suite"); fi
    done
    [ "${#wanted[@]}" -gt 0 ] || return
    title "the folder of Debian $release"
    # An installation that was broken off leaves a folder that is made anew the next time.
    limited 1800 "$log" "${folder[@]}" sh -ec 'rm /.ready; meson-helpers/install-deps --for-suites; touch /.ready'
    status=$?
    if [ "$status" -ne 0 ]; then
        show_log "$log"
        # A release that cannot be had today is no failure of ours.
        if "$everywhere" && [ "$status" -eq 69 ]; then result=SKIP; fi
        for suite in "${wanted[@]}"; do
            echo "$result $release/${suite#Tests/suites/}: there is no folder of Debian $release: $(tail -n 1 "$log")"
        done | record
        return
    fi
    gstreamer_version "${folder[@]}" >"$work/version-$release"
    for suite in "${wanted[@]}"; do
        title "$release/${suite#Tests/suites/}"
        run_suite "$release/${suite#Tests/suites/}" "$suite" "${folder[@]}" env "LATCHKEY_PREBUILT=$release"
    done
}
for release in "${releases[@]}"; do
    results=$logs/results-$release
    run_release "$release"
done

finish
