// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementTestSupport
import LatchkeyProtection
import Synchronization

@testable import LatchkeyElements

/// A secure decryptor for the memory of the tests. It takes only streams that carry its mark in their caps: other tests
/// of the process have decryptors too.
final class TestTrustedEnvironment: SecureDecryptor {
    struct Record {
        var streams: [String] = []
        var keys: [KeyID?] = []
        var clearSamples = 0
    }

    let name = "test environment"
    let memoryFeature: String?
    let mark: String
    /// Hands out memory itself.
    let allocates: Bool
    /// Why it decrypts nothing.
    let refusal: (stream: String?, sample: String?)
    /// The key that is known by what a sample comes with.
    let unwrap: @Sendable (ContentKey) -> ContentKey
    let record = Mutex(Record())

    init(
        _ mark: String, memoryFeature: String? = "memory:TestSecure", allocates: Bool = false,
        refusing refusal: (stream: String?, sample: String?) = (nil, nil),
        unwrap: @escaping @Sendable (ContentKey) -> ContentKey = { $0 }
    ) {
        (self.mark, self.memoryFeature, self.allocates, self.refusal) = (mark, memoryFeature, allocates, refusal)
        self.unwrap = unwrap
        SecureDecryptors.register(self)
    }

    func takes(_ stream: SecureStream) -> Bool {
        stream.mediaType == "video/x-h264" && stream.caps.contains("mark=(string)\(mark)")
    }

    func makeStreamDecryptor(for stream: SecureStream) throws(SecureDecryptionError) -> any SecureStreamDecryptor {
        if let reason = refusal.stream { throw SecureDecryptionError(reason) }
        record.withLock { $0.streams.append(stream.caps) }
        return TestStreamDecryptor(self)
    }
}

private final class TestStreamDecryptor: SecureStreamDecryptor {
    private let environment: TestTrustedEnvironment
    private let allocator = ekt_secure_allocator_new()

    init(_ environment: TestTrustedEnvironment) { self.environment = environment }
    deinit { gst_object_unref(allocator) }

    func decrypt(_ sample: borrowing SecureSample) throws(SecureDecryptionError) {
        if let reason = environment.refusal.sample { throw SecureDecryptionError(reason) }
        guard let hidden = ekt_secure_bytes(sample.destination) else {
            throw SecureDecryptionError("the destination is ordinary memory")
        }
        var capacity: gsize = 0
        guard gst_memory_get_sizes(sample.destination, nil, &capacity) == gsize(sample.source.count) else {
            throw SecureDecryptionError("the destination is of another size")
        }
        let target = UnsafeMutableRawBufferPointer(start: hidden, count: sample.source.count)
        let keyID = sample.keyID
        guard let key = sample.key else {
            target.copyMemory(from: sample.source)
            environment.record.withLock { $0.clearSamples += 1 }
            return
        }
        environment.record.withLock { $0.keys.append(keyID) }
        do {
            try SampleCipher(key: environment.unwrap(key)).decrypt(sample.plan, from: sample.source, into: target)
        } catch {
            throw SecureDecryptionError("\(error)")
        }
    }

    func makeMemory(size: Int) -> UnsafeMutablePointer<GstMemory>? {
        environment.allocates ? gst_allocator_alloc(allocator, gsize(size), nil) : nil
    }
}
