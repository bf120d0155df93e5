# SPDX-License-Identifier: MPL-2.0
# Sourced by bash scripts: makes the toolchain that swiftly installed visible to a shell that was started before, and
# answers whether the Swift in PATH is new enough.

# What Latchkey needs, and what install-deps installs.
SWIFT_LEAST=6.3
SWIFT_VERSION=6.3.1

# Whether the Swift compiler in PATH has at least version SWIFT_LEAST.
has_swift() {
    local found
    found=$(swiftc --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' | head -n 1)
    [ -n "$found" ] && [ "$(printf '%s\n' "$SWIFT_LEAST" "$found" | sort -V | head -n 1)" = "$SWIFT_LEAST" ]
}

find_swift() {
    has_swift && return
    local environment=${SWIFTLY_HOME_DIR:-$HOME/.local/share/swiftly}/env.sh
    if [ -r "$environment" ]; then
        # shellcheck disable=SC1090
        . "$environment"
        hash -r
    fi
    has_swift
}
