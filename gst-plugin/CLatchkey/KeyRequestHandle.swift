// SPDX-License-Identifier: MPL-2.0

import CLatchkeyLoader
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// A `LatchkeyKeyRequest`: a request with what it says of itself in memory that C can read.
final class KeyRequestHandle: @unchecked Sendable {
    // SAFETY: the memory is written in `init` alone and freed in `deinit`; the lease is behind a lock.

    let request: KeyLoadingRequest
    private weak let loader: FunctionsLoader?
    private let lease = Mutex<Duration?>(nil)
    private let requestsPersistableKey: Mutex<Bool>

    let keySystem: CMemory?
    let keyIDs: [CMemory]
    let keyURI: CMemory?
    let suggestedURL: CMemory?
    let initializationData: [(bytes: CMemory, origin: CMemory)]
    let challenge: CMemory?

    init(_ request: KeyLoadingRequest, of loader: FunctionsLoader) {
        self.request = request
        self.loader = loader
        requestsPersistableKey = Mutex(request.isForStorage)
        keySystem = request.keySystem.map { CMemory(text: $0.rawValue) }
        keyIDs = request.keyIDs.map { CMemory($0.bytes) }
        keyURI = request.keyURI.map { CMemory(text: $0) }
        suggestedURL = request.suggestedURL.map { CMemory(text: $0) }
        initializationData = request.initializationData.map { (CMemory($0.bytes), CMemory(text: $0.origin)) }
        challenge = request.challenge.isEmpty ? nil : CMemory(request.challenge)
    }

    func setLease(_ duration: Duration?) { lease.withLock { $0 = duration } }

    func setRequestsPersistableKey(_ requests: Bool) { requestsPersistableKey.withLock { $0 = requests } }

    /// What an SPC of this request says.
    var exchangeOptions: FairPlayExchange.Options {
        var options = request.defaultExchangeOptions
        options.requestsPersistableKey = requestsPersistableKey.withLock(\.self)
        return options
    }

    func finish(with answer: KeyAnswer) -> Bool {
        var answer = answer
        if let lease = lease.withLock(\.self) { answer = .limited(answer, KeyTerms(lease: lease)) }
        return finish { request.finishLoading(with: answer) }
    }

    func finish(with error: KeyError) -> Bool { finish { request.finishLoading(with: error) } }

    private func finish(_ body: () -> Bool) -> Bool { loader?.finish(self, body) ?? body() }
}

/// Bytes that C reads. There is a zero byte behind them, so that a text is a string.
final class CMemory: @unchecked Sendable {
    // SAFETY: written in `init` alone and freed in `deinit`.
    private let storage: UnsafeMutableBufferPointer<UInt8>

    init(_ bytes: some Collection<UInt8>) {
        storage = .allocate(capacity: bytes.count + 1)
        _ = storage.initialize(fromContentsOf: bytes)
        (storage.baseAddress?.advanced(by: bytes.count))?.initialize(to: 0)
    }

    /// Ends at the first zero byte, as every string of C.
    convenience init(text: String) { self.init(Array(text.utf8)) }

    deinit { storage.deallocate() }

    var size: Int { storage.count - 1 }
    var bytes: UnsafePointer<UInt8>? { UnsafePointer(storage.baseAddress) }
    var text: UnsafePointer<CChar>? {
        // SAFETY: UInt8 and CChar have the same layout.
        UnsafeRawPointer(storage.baseAddress)?.assumingMemoryBound(to: CChar.self)
    }
}
