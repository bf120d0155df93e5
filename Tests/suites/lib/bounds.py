# SPDX-License-Identifier: MPL-2.0
"""Bounds on time. A bound says that something happens at the latest after so many seconds. On a busy machine,
LATCHKEY_TEST_PATIENCE makes each bound so many times looser, as in the Swift tests. What only ends a hang stays as it is, and
so does the least time that something takes."""

import os

PATIENCE = float(os.environ.get("LATCHKEY_TEST_PATIENCE") or 1)
