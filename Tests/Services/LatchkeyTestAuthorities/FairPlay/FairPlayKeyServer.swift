// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// The key server's side of a FairPlay-style exchange, for tests and demonstrations: SPC in, CKC out.
///
/// It is stricter than the key servers that are known, so that a client which it answers does well with others. In
/// this order it refuses:
///
/// - a container of another version than 1 or 2 (-42580); with missing or extra bytes, or a payload that is empty or no
///   multiple of 16 bytes (-42581)
/// - an SPC for another certificate, by its hash; a payload key that cannot be unwrapped (-42588)
/// - a payload with a block that goes past the end, has a length that is no multiple of 16, or a value longer than the
///   block (-42581); two blocks with one tag (-42591)
/// - a missing block of the nine that every SPC has (-42583)
/// - a block without padding, or with 8 bytes of padding or more that are all the same (-42581)
/// - a return request that names a block twice (-42591), or one that is not there (-42583)
/// - where the SPC has this project's code over the whole message (see `PayloadIntegrity`): a code that does not fit,
///   so that every changed byte shows, also in random padding (-42589). Without the code, such a byte cannot be seen,
///   because nothing else is known of padding; `requiresIntegrity` refuses such SPCs (-42583)
/// - values of a wrong length (-42581), an asset identifier that is not 2 to 200 bytes long, an unknown playback state
///   (-42585), bad integrity bytes of [SK..R1] (-42589)
/// - a protocol version that is not known, or not in the client's own list (-42590)
/// - a transaction identifier or an R1 that was used within the window (-42585)
///
/// Unknown blocks are ignored. Thread-safe.
public final class FairPlayKeyServer: Sendable {
    /// What a request gets: the CKC, and what was found in the SPC.
    public struct Answer: Sendable {
        /// The body of the response, as bytes.
        public var ckc: [UInt8]
        /// The opened SPC, for a log.
        public var request: FairPlayServerRequest
    }

    /// A content key and the IV of its content.
    public struct Key: Sendable {
        /// The content key, 16 bytes.
        public var key: ContentKey
        /// The IV of the content's samples or segments.
        public var initializationVector: InitializationVector

        /// Shares `key`, which is wiped when its last owner goes.
        public init(key: ContentKey, initializationVector: InitializationVector) {
            self.key = key
            self.initializationVector = initializationVector
        }
    }

    private let authorities: [FairPlayTestAuthority]
    private let derivation: any DerivationFunction
    private let random: RandomSource
    private let window: Mutex<ReplayWindow>

    /// A server that answers SPCs for the certificates of `authorities`.
    ///
    /// A transaction identifier or an R1 is refused when it comes again within `windowLength`. At most
    /// `windowCapacity` requests are remembered.
    public init(
        authorities: [FairPlayTestAuthority], derivation: any DerivationFunction = TestDerivationFunction(),
        windowLength: Duration = .seconds(600), windowCapacity: Int = 10_000, random: RandomSource = .system
    ) {
        self.authorities = authorities
        self.derivation = derivation
        self.random = random
        window = Mutex(ReplayWindow(length: windowLength, capacity: windowCapacity * 2))
    }

    /// Opens an SPC and checks all but whether it came before. Throws the errors that the list above names.
    public func open(_ spc: [UInt8]) throws(FairPlayServerError) -> FairPlayServerRequest {
        try FairPlayServerRequest(opening: spc, authorities: authorities, derivation: derivation)
    }

    /// Answers an SPC.
    ///
    /// `now` is the time since any fixed point; it never goes back. `key` finds the content key for an opened request,
    /// and `terms` those on which it is given. With terms that limit the time, the SPC has to have the client's time.
    public func respond(
        to spc: [UInt8], now: Duration, requiresIntegrity: Bool = false,
        terms: (FairPlayServerRequest) throws(FairPlayServerError) -> FairPlayTerms = { _ in FairPlayTerms() },
        key: (FairPlayServerRequest) throws(FairPlayServerError) -> Key?
    ) throws(FairPlayServerError) -> Answer {
        let request = try open(spc)
        guard request.hasIntegrity || !requiresIntegrity else {
            throw .missingBlock("TLLV \(TLLV.Tag.requestIntegrity)")
        }
        try admit(request, now: now)
        guard let key = try key(request) else {
            throw .keyNotFound("for the asset identifier \(printable(request.assetIdentifier))")
        }
        let terms = try terms(request)
        guard request.playback != nil || (terms.duration == nil && terms.offlineKey == nil) else {
            throw .missingBlock("TLLV \(TLLV.Tag.mediaPlaybackState), without which the client cannot count time")
        }
        do {
            return Answer(ckc: try response(to: request, key: key, terms: terms), request: request)
        } catch let error as FormatError {
            throw .responseNotMade(error.description)
        } catch {
            throw .responseNotMade("the payload cannot be encrypted")
        }
    }

    private func admit(_ request: FairPlayServerRequest, now: Duration) throws(FairPlayServerError) {
        let digest: [UInt8]
        do throws(CryptoError) {
            digest = try Digest.sha256(request.r1)
        } catch {
            throw .cryptography("\(error)")
        }
        guard window.withLock({ $0.admit([request.transactionIdentifier, digest], now: now) }) else {
            throw .replay("the transaction identifier or R1 was used before; every request needs new ones")
        }
    }

    private func response(to request: FairPlayServerRequest, key: Key, terms: FairPlayTerms) throws -> [UInt8] {
        var blocks = request.returnedBlocks
        func add(_ tag: TLLV.Tag, _ value: [UInt8]) throws {
            blocks.append(try TLLV(tag, value, random: random.bytes))
        }
        try add(.r1, request.r1)
        if request.playback?.state.requiresContentKey ?? true {
            var clear = key.key.withBytes { Array($0) }
            defer { wipe(&clear) }
            let encrypted = try AES.ecb(.encrypt, key: request.sessionKey, clear)
            try add(.encryptedContentKey, key.initializationVector.bytes + encrypted)
        }
        if let duration = terms.duration { try add(.contentKeyDuration, duration.tllvValue) }
        if let requirement = terms.outputRequirement { try add(.hdcp, HDCPRequirement(requirement).tllvValue) }
        if let offlineKey = terms.offlineKey { try add(.offlineKey, offlineKey.tllvValue) }
        if request.hasIntegrity { try add(.responseIntegrity, [UInt8](repeating: 0, count: PayloadIntegrity.size)) }
        return try seal(try TLLVPayload(try random.shuffle(blocks)), for: request)
    }

    private func seal(_ payload: TLLVPayload, for request: FairPlayServerRequest) throws -> [UInt8] {
        let iv = try random.bytes(16)
        func container(_ payload: [UInt8]) throws -> CKCContainer {
            try CKCContainer(version: request.version.rawValue, initializationVector: iv, payload: payload)
        }
        var payload = payload
        if payload[.responseIntegrity] != nil {
            let header = try container(try payload.serialized()).header
            let message = try PayloadIntegrity.message(header: header, payload: payload, tag: .responseIntegrity)
            let code = try request.responseKey.withBytes { try Digest.hmac(key: $0, message) }
            payload = try payload.replacingValue(of: .responseIntegrity, with: code)
        }
        var clear = try payload.serialized()
        defer { wipe(&clear) }
        return try container(try AES.cbc(.encrypt, key: request.responseKey, iv: iv, clear)).serialized()
    }
}

/// The identifier as text where it is printable ASCII, else in hexadecimal digits.
private func printable(_ bytes: [UInt8]) -> String {
    guard bytes.allSatisfy({ 0x20..<0x7F ~= $0 }) else { return "0x\(Hex.encode(bytes))" }
    return "“\(String(decoding: bytes, as: UTF8.self))”"
}

/// What was seen within the last minutes, so that nothing is taken twice. Bounded in time and in number.
struct ReplayWindow {
    /// How long something counts as seen.
    let length: Duration
    /// Above this many, the oldest is forgotten before its time.
    let capacity: Int
    private var seen: Set<[UInt8]> = []
    private var queue: [(mark: [UInt8], time: Duration)] = []
    private var first = 0

    init(length: Duration, capacity: Int) {
        self.length = length
        self.capacity = max(capacity, 1)
    }

    /// How many things count as seen.
    var count: Int { seen.count }

    /// Notes `marks` and returns true, unless one of them was seen within the window. `now` never goes back.
    mutating func admit(_ marks: [[UInt8]], now: Duration) -> Bool {
        while first < queue.count, queue[first].time + length <= now { forgetOldest() }
        guard marks.allSatisfy({ !seen.contains($0) }) else { return false }
        for mark in marks where seen.insert(mark).inserted { queue.append((mark, now)) }
        while queue.count - first > capacity { forgetOldest() }
        return true
    }

    private mutating func forgetOldest() {
        seen.remove(queue[first].mark)
        first += 1
        // Now and then, so that it costs nothing on average.
        if first >= 64, first * 2 >= queue.count {
            queue.removeFirst(first)
            first = 0
        }
    }
}

/// On which terms a key server gives a content key.
public struct FairPlayTerms: Hashable, Sendable {
    /// In seconds; nil for no lease. 0 is an answer that grants nothing.
    public var lease: UInt32?
    /// In seconds; nil for no end.
    public var rental: UInt32?
    /// Whether the client may store the key.
    public var persistence = FairPlayLicense.Persistence.notAllowed
    /// What the output needs; nil says nothing about it.
    public var outputRequirement: OutputRequirement?
    /// How long a stored key lasts.
    public var offlineKey: OfflineKeyTerms?

    /// Without arguments: the key, without limits and not to be stored.
    public init(
        lease: UInt32? = nil, rental: UInt32? = nil,
        persistence: FairPlayLicense.Persistence = .notAllowed, outputRequirement: OutputRequirement? = nil,
        offlineKey: OfflineKeyTerms? = nil
    ) {
        self.lease = lease
        self.rental = rental
        self.persistence = persistence
        self.outputRequirement = outputRequirement
        self.offlineKey = offlineKey
    }

    /// What the CKC says about time; nil where there is no limit and the key may not be stored.
    var duration: ContentKeyDuration? {
        switch (persistence, lease, rental) {
        case (.unlimited, _, _): ContentKeyDuration(kind: .persistent)
        case (.forRentalDuration, _, let rental):
            ContentKeyDuration(rental: rental ?? ContentKeyDuration.unlimited, kind: .persistentForRental)
        case (.notAllowed, let lease?, let rental?):
            ContentKeyDuration(lease: lease, rental: rental, kind: .leaseAndRental)
        case (.notAllowed, let lease?, nil): ContentKeyDuration(lease: lease, kind: .lease)
        case (.notAllowed, nil, let rental?): ContentKeyDuration(rental: rental, kind: .rental)
        case (.notAllowed, nil, nil): nil
        }
    }
}
