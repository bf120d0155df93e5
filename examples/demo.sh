#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
# Builds Latchkey, starts the reference server and plays a protected DASH presentation through stock GStreamer.
# Usage: examples/demo.sh [--out FOLDER] [--real-time]
set -euo pipefail
cd "$(dirname "$0")/.."

meson-helpers/install-deps --for-tests
exec meson-helpers/with-plugin /usr/bin/python3 examples/demo.py "$@"
