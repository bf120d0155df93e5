#!/usr/bin/env bash
# SPDX-License-Identifier: MPL-2.0
# The three ways to a FairPlay-style key, against a running latchkey-server:
#
#   latchkey-server --port 8080 --fairplay DIR --keys-file keys.txt     # keys.txt: skd://movie-1 KEY IV
#   examples/fairplay/run.sh http://127.0.0.1:8080 DIR/fairplay-ask.hex
#
# Exits with a status other than 0 where one of them does not work.

set -uo pipefail
[ $# -ge 2 ] || { echo "Usage: run.sh SERVER ASK-FILE [EXAMPLE]" >&2 && exit 2; }
server=${1%/} ask=$2 example=${3:-latchkey-loader-example}
failures=0
# A user of this run alone: the server remembers which device is whose.
user=user-$$-$RANDOM
first=0101010101010101010101010101010101010101
other=0202020202020202020202020202020202020202

works() {
    local title=$1
    shift
    if "$example" "$@"; then echo "ok: $title"; else echo "FAILED: $title" && failures=$((failures + 1)); fi
}

is_refused() {
    local title=$1 output
    shift
    if output=$("$example" "$@"); then
        echo "FAILED: $title: it was not refused" && failures=$((failures + 1))
    elif grep -q "status 403" <<<"$output"; then
        echo "ok: $title"
    else
        echo "FAILED: $title: $output" && failures=$((failures + 1))
    fi
}

works "key server with a fixed URL" on-premise "$server" "$ask"
works "key server in the key URI" derived "$server" "$ask"
works "key URI that is the token URL" token-url "$server" "$ask"
is_refused "enforcement before the first playback" \
    entitlement "$server" "$ask" --user "$user" --enforce-device --device "$first"
works "first playback registers the device" entitlement "$server" "$ask" --user "$user" --device "$first"
works "the same device, enforced" \
    entitlement "$server" "$ask" --user "$user" --enforce-device --device "$first"
is_refused "another device, enforced" \
    entitlement "$server" "$ask" --user "$user" --enforce-device --device "$other"
exit $((failures > 0))
