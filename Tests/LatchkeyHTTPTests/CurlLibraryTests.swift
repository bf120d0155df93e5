// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl
import Testing

@testable import LatchkeyHTTP

struct CurlLibraryTests {
    @Test func hasItsFunctions() throws {
        let library = try CurlLibrary.shared(for: "http://host/")
        #expect(library.isReady)
        #expect(library.functions == CurlLibrary.present?.functions)
    }

    /// As where the process had no descriptors left: nothing would hear of commands, also when there are some again.
    @Test func whatCannotBeWokenIsNotUsed() throws {
        // With a table of its own.
        let library = try CurlLibrary(file: "libcurl.so.4")
        let functions = UnsafeMutablePointer(mutating: library.functions)
        defer { functions.deallocate() }
        let handle = try #require(MultiHandle(library))
        handle.free()
        functions.pointee.multi_wakeup = { _ in CURLM_WAKEUP_FAILURE }
        let isMade = MultiHandle(library) != nil
        #expect(!isMade)
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
