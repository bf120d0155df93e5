// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc

/// What a test process needs once, before GStreamer starts.
public enum TestProcess {
    /// Keeps the settings of whoever runs the tests out of them. Setting the variables here also means that tests
    /// which change them later do not make the environment grow under the feet of other threads.
    public static let prepare: Void = {
        setenv("XDG_CONFIG_HOME", "/dev/null/config", 1)
        setenv("LATCHKEY_CONFIG", "", 1)
        setenv("LATCHKEY_KEYS_FILE", "", 1)
        letFreedURLPass()
        gst_init(nil, nil)
    }()

    /// From 1.26 on, the stock demuxer of HLS posts its statistics with a URL that it has freed, if it is stopped while it
    /// asks again for its first media playlist. GStreamer warns of that if it sees bytes that are not UTF-8. Where
    /// `G_DEBUG` makes warnings fatal, this one is not.
    private static func letFreedURLPass() {
        g_test_log_set_fatal_handler(
            { _, _, message, _ in
                guard let message else { return 1 }
                let text = String(cString: message)
                return text.contains("'manifest-uri', but string is not valid UTF-8")
                    || text.contains("'uri', but string is not valid UTF-8") ? 0 : 1
            }, nil)
    }

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
