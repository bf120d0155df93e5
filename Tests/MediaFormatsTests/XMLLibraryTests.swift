// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import MediaFormats

struct XMLLibraryTests {
    @Test func namesAMissingLibrary() {
        #expect {
            try XMLLibrary(file: "libxml-that-is-not-there.so.2")
        } throws: {
            "\($0)".contains("libxml-that-is-not-there.so.2: cannot open") && "\($0)".contains("package libxml2")
        }
    }

    @Test func namesAMissingFunction() {
        #expect { try XMLLibrary(file: "libm.so.6") } throws: { "\($0)".contains("libm.so.6 has no xmlInitParser") }
    }
}
