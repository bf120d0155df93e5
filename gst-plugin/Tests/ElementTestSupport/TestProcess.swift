// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import Glibc

/// What a test process needs once, before GStreamer starts.
public enum TestProcess {
    /// Keeps the settings of whoever runs the tests out of them. Setting the variables here also means that tests
    /// which change them later do not make the environment grow under the feet of other threads.
    public static let prepare: Void = {
        setenv("XDG_CONFIG_HOME", "/nonexistent", 1)
        setenv("LATCHKEY_CONFIG", "", 1)
        setenv("LATCHKEY_KEYS_FILE", "", 1)
        gst_init(nil, nil)
    }()

    /// How much slower than usual this process may be: sanitizers set `LATCHKEY_TEST_PATIENCE`.
    public static let patience: Double = getenv("LATCHKEY_TEST_PATIENCE").flatMap { Double(String(cString: $0)) } ?? 1

    /// After this many nanoseconds a test gives up waiting and fails.
    public static let deadline = UInt64(10_000_000_000 * patience)
}

/// Why a helper could not do its work.
public struct TestFailure: Error, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
}
