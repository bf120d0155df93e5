// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

@testable import LatchkeyContainers

/// A stream, with the keys at hand.
struct Decryption {
    var keys: [KeyID?: ContentKey]
    /// For notes without one.
    var initializationVector = InitializationVector(high: 0, low: 0)
    /// The plans of units bring their IVs.
    var hasOwnVectors = false
    /// The notes that the stream had.
    private(set) var notes: [SegmentKey] = []
    private(set) var units = 0
    let stream = SampleAESStream()
    private var output: [UInt8] = []
    private var ciphers: [KeyID?: SampleCipher] = [:]
    private var current: SegmentKey?

    init(_ keys: [KeyID?: ContentKey], _ vector: InitializationVector = InitializationVector(high: 0, low: 0)) {
        self.keys = keys
        initializationVector = vector
    }

    /// One key for everything that is encrypted.
    init(key: String, iv: String) throws {
        guard let key = ContentKey(hex: key), let vector = InitializationVector(Hex.decode(iv) ?? []) else {
            throw MissingKey()
        }
        self.init([nil: key], vector)
    }

    mutating func append(_ bytes: some Collection<UInt8>) throws {
        try Array(bytes).withUnsafeBytes { try stream.append($0) }
        try proceed()
    }

    mutating func append(_ bytes: [UInt8], inPiecesOf size: Int) throws {
        for start in stride(from: 0, to: bytes.count, by: max(size, 1)) {
            try append(bytes[start..<min(bytes.count, start + size)])
        }
    }

    mutating func end() throws {
        try stream.end()
        try proceed()
    }

    /// All output up to now.
    mutating func takeOutput() -> [UInt8] {
        defer { output.removeAll() }
        return output
    }

    private mutating func proceed() throws {
        steps: while true {
            switch try stream.next() {
            case .nothing: break steps
            case .key(let key):
                current = key
                notes.append(key)
            case .unit:
                let cipher = try cipher(for: current?.keyID)
                units += 1
                try stream.withUnit { plan, bytes in
                    var plan = plan
                    if !hasOwnVectors {
                        plan.initializationVector = current?.initializationVector ?? initializationVector
                    }
                    try cipher.decrypt(plan, in: bytes)
                }
            }
        }
        var piece = [UInt8](repeating: 0, count: stream.outputSize)
        piece.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
        output += piece
    }

    private mutating func cipher(for keyID: KeyID?) throws -> SampleCipher {
        if let known = ciphers[keyID] { return known }
        guard let key = keys[keyID] else { throw MissingKey() }
        let cipher = try SampleCipher(key: key)
        ciphers[keyID] = cipher
        return cipher
    }
}

struct MissingKey: Error {}
