// SPDX-License-Identifier: MPL-2.0

import Glibc

/// A reader of untrusted bytes, for a fuzzer to feed.
///
/// It must come back from any input: with a value or an error, soon, and without much memory. It traps where what it
/// read breaks a promise of the reader, so that the fuzzer finds wrong answers and not only crashes.
public struct FuzzTarget: Sendable {
    /// Also the name of its folder in Tests/Fuzz/Corpus.
    public let name: String
    public let run: @Sendable ([UInt8]) -> Void

    init(_ name: String, _ run: @escaping @Sendable ([UInt8]) -> Void) {
        self.name = name
        self.run = run
    }

    public static let all: [FuzzTarget] =
        boxes + isoMedia + keys + hls + fairPlay + sampleAES + store + playReady + manifests + sessions
        + licenseServices + offline + relays + webM

    public static func named(_ name: String) -> FuzzTarget? { all.first { $0.name == name } }
}

/// Traps where a reader broke its promise, and says which: a release build drops the text of a `precondition`.
func promise(_ isKept: Bool, _ text: String = "what is written reads the same") {
    guard !isKept else { return }
    print("Broken promise: \(text)")
    fflush(nil)
    fatalError(text)
}
