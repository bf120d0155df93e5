// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElements
import LatchkeyProtection

/// A `LatchkeySecureStream`: a stream in memory that C can read.
final class SecureStreamHandle: OpaqueReference {
    let mediaType: CMemory
    let caps: CMemory
    var error: String?

    init(_ stream: SecureStream) {
        mediaType = CMemory(text: stream.mediaType)
        caps = CMemory(text: stream.caps)
    }
}

/// A `LatchkeySecureSample`: lent to C for one call at a time.
final class SecureSampleHandle: OpaqueReference {
    // SAFETY: what is lent is good for as long as `lend` runs, and is nil after it. `keyID` and `vector` belong to this
    // object and have 16 bytes each.

    private(set) var plan: SamplePlan?
    private var lentKeyID: KeyID?
    var hasKeyID: Bool { lentKeyID != nil }
    private(set) var key: UnsafePointer<UInt8>?
    private(set) var source = UnsafeRawBufferPointer(start: nil, count: 0)
    private(set) var destination: UnsafeMutablePointer<GstMemory>?
    let keyID = UnsafeMutablePointer<UInt8>.allocate(capacity: 16)
    let vector = UnsafeMutablePointer<UInt8>.allocate(capacity: 16)
    var error: String?

    init() {
        keyID.initialize(repeating: 0, count: 16)
        vector.initialize(repeating: 0, count: 16)
    }

    deinit {
        keyID.deallocate()
        vector.deallocate()
    }

    func takeError() -> String? {
        defer { error = nil }
        return error
    }

    func lend(_ sample: borrowing SecureSample, _ body: () -> CInt) -> CInt {
        let lentPlan = sample.plan
        plan = lentPlan
        // The same for most samples of a stream.
        if sample.keyID != lentKeyID, let bytes = sample.keyID?.bytes { keyID.update(from: bytes, count: 16) }
        lentKeyID = sample.keyID
        write(lentPlan.initializationVector)
        source = sample.source
        destination = sample.destination
        defer {
            plan = nil
            key = nil
            source = UnsafeRawBufferPointer(start: nil, count: 0)
            destination = nil
        }
        guard let lentKey = sample.key else { return body() }
        return lentKey.withBytes { bytes in
            key = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
            return body()
        }
    }

    private func write(_ initializationVector: InitializationVector) {
        for index in 0..<8 {
            let shift = UInt64(56 - index * 8)
            vector[index] = UInt8(truncatingIfNeeded: initializationVector.high >> shift)
            vector[index + 8] = UInt8(truncatingIfNeeded: initializationVector.low >> shift)
        }
    }
}
