// SPDX-License-Identifier: MPL-2.0

/// How often the application hears of what is the case: the frequencies of the Downloadable Agent manual, 5.4. A value.
struct EventFrequency: Hashable, Sendable {
    private var isRightsTold = false
    private var isTimeTold = false
    private var isContentTold = false

    /// There are no rights: whether that is news.
    mutating func rightsAreMissing() -> Bool { Self.isNews(&isRightsTold) }
    /// A licence was installed.
    mutating func licenseWasInstalled() { isRightsTold = false }

    /// The clock cannot be trusted: whether that is news.
    mutating func timeIsUntrusted() -> Bool { Self.isNews(&isTimeTold) }
    /// Something was decrypted, so the clock is no obstacle.
    mutating func contentWasDecrypted() { isTimeTold = false }

    /// Something came that is no content: whether that is news.
    mutating func contentIsInvalid() -> Bool { Self.isNews(&isContentTold) }
    /// A piece of content could be read.
    mutating func contentWasRead() { isContentTold = false }

    private static func isNews(_ told: inout Bool) -> Bool {
        defer { told = true }
        return !told
    }
}
