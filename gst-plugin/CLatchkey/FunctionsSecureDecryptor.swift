// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeySecureDecryptor
import LatchkeyElements
import LatchkeyProtection

/// A secure decryptor made of C functions.
final class FunctionsSecureDecryptor: SecureDecryptor, @unchecked Sendable {
    // SAFETY: `userData` is only handed through, and the header says that the functions are called on any thread.

    typealias Destroy = @convention(c) (UnsafeMutableRawPointer?) -> Void

    let name: String
    let memoryFeature: String?
    fileprivate let functions: LatchkeySecureDecryptorFunctions
    private let userData: UnsafeMutableRawPointer?
    private let destroy: Destroy?

    /// Nil where the table cannot be used.
    init?(
        _ name: UnsafePointer<CChar>?, _ table: UnsafePointer<LatchkeySecureDecryptorFunctions>?,
        _ userData: UnsafeMutableRawPointer?, _ destroy: Destroy?
    ) {
        guard let table, let functions = Self.read(table) else { return nil }
        Callbacks.willBegin()
        self.name = name.map { String(cString: $0) } ?? "application"
        memoryFeature = functions.memory_feature.map { String(cString: $0) }
        self.functions = functions
        self.userData = userData
        self.destroy = destroy
    }

    deinit { if let destroy { Callbacks.call { destroy(userData) } } }

    /// The functions that the caller's table has; what it does not know of is nil.
    private static func read(
        _ table: UnsafePointer<LatchkeySecureDecryptorFunctions>
    ) -> LatchkeySecureDecryptorFunctions? {
        guard let functions = readTable(table, into: LatchkeySecureDecryptorFunctions()) else {
            return nil
        }
        return functions.create == nil || functions.decrypt == nil ? nil : functions
    }

    func takes(_ stream: SecureStream) -> Bool {
        guard let takes = functions.takes else { return stream.mediaType.hasPrefix("video/") }
        let handle = SecureStreamHandle(stream)
        defer { withExtendedLifetime(handle) {} }
        return Callbacks.call { takes(handle.pointer, userData) != 0 } ?? false
    }

    func makeStreamDecryptor(for stream: SecureStream) throws(SecureDecryptionError) -> any SecureStreamDecryptor {
        let handle = SecureStreamHandle(stream)
        defer { withExtendedLifetime(handle) {} }
        guard let made = Callbacks.call({ functions.create?(handle.pointer, userData) }) ?? nil else {
            throw SecureDecryptionError(handle.error ?? "it does not decrypt this stream")
        }
        return FunctionsStreamDecryptor(self, made)
    }
}

/// What the C function `create` made.
private final class FunctionsStreamDecryptor: SecureStreamDecryptor {
    private let decryptor: FunctionsSecureDecryptor
    private let made: UnsafeMutableRawPointer
    /// One for all samples: no allocation a sample.
    private let handle = SecureSampleHandle()

    init(_ decryptor: FunctionsSecureDecryptor, _ made: UnsafeMutableRawPointer) {
        self.decryptor = decryptor
        self.made = made
    }

    deinit { Callbacks.call { decryptor.functions.free?(made) } }

    func decrypt(_ sample: borrowing SecureSample) throws(SecureDecryptionError) {
        let isDone =
            handle.lend(sample) {
                Callbacks.call { decryptor.functions.decrypt?(made, handle.pointer) ?? 0 } ?? 0
            } != 0
        let error = handle.takeError()
        guard isDone else { throw SecureDecryptionError(error ?? "it does not say why") }
    }

    func makeMemory(size: Int) -> UnsafeMutablePointer<GstMemory>? {
        Callbacks.call { decryptor.functions.allocate?(made, size) } ?? nil
    }
}
