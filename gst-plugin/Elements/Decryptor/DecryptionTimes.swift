// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// How long decryption takes with each key, for the log. A value.
struct DecryptionTimes {
    /// A stream that rotates keys brings new ones for ever.
    private static let limit = 16

    private struct Entry {
        let keyID: KeyID?
        var samples: UInt64 = 0
        var bytes: UInt64 = 0
        /// In nanoseconds, as `longest`, which is that of one sample.
        var total: UInt64 = 0
        var longest: UInt64 = 0
    }

    private var entries: [Entry] = []

    /// Something was decrypted, in so many nanoseconds. False where the times have to be taken first, because there are too many
    /// keys: nothing has changed then.
    mutating func add(_ keyID: KeyID?, bytes: UInt64, time: UInt64) -> Bool {
        // One key, or few: no hash is as quick as a look at them.
        var index = entries.count - 1
        while index >= 0, entries[index].keyID != keyID { index -= 1 }
        if index < 0 {
            guard entries.count < Self.limit else { return false }
            index = entries.count
            entries.append(Entry(keyID: keyID))
        }
        entries[index].samples &+= 1
        entries[index].bytes &+= bytes
        entries[index].total &+= time
        entries[index].longest = max(entries[index].longest, time)
        return true
    }

    /// A line for each key, the one that was used first at the front.
    consuming func lines(_ name: (KeyID?) -> String) -> [String] {
        entries.map {
            "decryption, \(name($0.keyID)): \($0.samples) samples, \($0.bytes) bytes in \($0.total / 1000) µs, "
                + "at most \($0.longest / 1000) µs for one"
        }
    }
}

extension Decryptor {
    func countDecrypted(_ size: Int, _ keyID: KeyID?, since start: UInt64) {
        let (elapsed, size) = (MonotonicTime.now &- start, UInt64(size))
        let isNoted = count {
            $0.samplesDecrypted &+= 1
            $0.bytesDecrypted &+= size
            $0.decryptTime &+= elapsed
            return $0.times.add(keyID, bytes: size, time: elapsed)
        }
        guard !isNoted else { return }
        logTimes()
        count { _ = $0.times.add(keyID, bytes: size, time: elapsed) }
    }

    /// At the end, and where playback goes on at another position.
    func logTimes() {
        let times = count { statistics in
            defer { statistics.times = DecryptionTimes() }
            return statistics.times
        }
        guard let session = currentSession else { return }
        for line in times.lines(name(of:)) { session.logDecryption(line) }
    }
}
