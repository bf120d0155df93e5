// SPDX-License-Identifier: MPL-2.0

import Testing

/// One after the other: each plays on all cores, and some change the environment.
@Suite(.serialized) struct HLSDemuxTests {}
