// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import Latchkey
import Testing

/// All tests of the elements, one after the other: some set environment variables that every element reads.
@Suite(.serialized) struct ElementTests {}
