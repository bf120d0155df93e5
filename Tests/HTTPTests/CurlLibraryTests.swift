// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import HTTP

struct CurlLibraryTests {
    @Test func hasItsFunctions() throws {
        let library = try CurlLibrary.shared()
        #expect(library.isReady)
        #expect(library.functions == (try CurlLibrary.shared()).functions)
    }

    @Test func namesAMissingLibrary() {
        #expect {
            try CurlLibrary(file: "libcurl-that-is-not-there.so.4")
        } throws: {
            "\($0)".contains("libcurl-that-is-not-there.so.4: cannot open") && "\($0)".contains("package libcurl4")
        }
    }

    @Test func namesAMissingFunction() {
        #expect { try CurlLibrary(file: "libm.so.6") } throws: { "\($0)".contains("libm.so.6 has no curl_global_init") }
    }
}
