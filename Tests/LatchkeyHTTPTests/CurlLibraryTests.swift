// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyHTTP

struct CurlLibraryTests {
    @Test func hasItsFunctions() throws {
        let library = try CurlLibrary.shared(for: "http://host/")
        #expect(library.isReady)
        #expect(library.functions == CurlLibrary.present?.functions)
    }

    @Test func namesAMissingLibrary() {
        #expect {
            try CurlLibrary(file: "libcurl-that-is-not-there.so.4")
        } throws: {
            let reason = ($0 as? CurlLibrary.LoadFailure)?.reason ?? ""
            return reason.contains("libcurl-that-is-not-there.so.4: cannot open") && reason.contains("package libcurl4")
        }
    }

    @Test func namesAMissingFunction() {
        #expect { try CurlLibrary(file: "libm.so.6") } throws: { "\($0)".contains("libm.so.6 has no curl_global_init") }
    }
}
