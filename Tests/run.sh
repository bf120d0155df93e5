#!/usr/bin/env bash
# SPDX-License-Identifier: MPL-2.0
# Runs the checks and tests: without an option, the gate. Needs nothing but Debian and the network: what is missing gets
# installed first. Tests/runner has what it does, Tests/suites/README.md says what a suite is. The last line is
# N passed, N failed, N skipped.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
command -v python3 >/dev/null || meson-helpers/install-deps --for-tests || exit
exec env PYTHONDONTWRITEBYTECODE=1 python3 Tests/runner "$@" </dev/null
