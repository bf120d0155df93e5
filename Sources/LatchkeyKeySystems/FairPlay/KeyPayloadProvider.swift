// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Makes and opens the part of an exchange that holds keys, and hides how.
///
/// A vendor's kit that shows neither its derivation function nor the session key plugs in here: it makes the blocks
/// that carry the session key, and it opens what the key server made with them. `DerivedKeyPayloadProvider` is the
/// open form of it. Thread-safe, as requests are made at the same time.
///
/// ```swift
/// struct KitProvider: KeyPayloadProvider {
///     func makeKeyPayload(deviceIdentifier: [UInt8], random: RandomSource) throws -> any KeyPayload {
///         KitPayload(handle: try VendorKit.begin())  // its `requestBlocks` come out of the kit ready-made
///     }
/// }
/// ```
public protocol KeyPayloadProvider: Sendable {
    /// The keys of one new request. `deviceIdentifier` are the 20 bytes of the anonymised device identifier (HU).
    ///
    /// Called on any thread, also on several at once. The text of an error is not shown.
    func makeKeyPayload(deviceIdentifier: [UInt8], random: RandomSource) throws -> any KeyPayload

    /// Whether its key servers are this project's own, which know this project's own blocks. False by default.
    var isOfTestAuthority: Bool { get }
}

extension KeyPayloadProvider {
    /// False: a payload is real unless it says otherwise.
    public var isOfTestAuthority: Bool { false }
}

/// The keys of one request, and of its answer. Thread-safe. The text of its errors is not shown.
public protocol KeyPayload: Sendable {
    /// The blocks of the SPC that carry the keys: [SK..R1], its integrity, R2 and the AR seed.
    var requestBlocks: [TLLV] { get }

    /// Decrypts the payload of the CKC. `iv` has 16 bytes, `payload` a multiple of 16; the result has as many.
    func decryptResponse(_ payload: [UInt8], iv: [UInt8]) throws -> [UInt8]

    /// Whether these are the 44 bytes of R1 that the request had.
    func isEcho(ofR1 bytes: [UInt8]) -> Bool

    /// The content key out of 16 bytes that the session key encrypts. The IV of the content comes with them; the
    /// exchange adds it to the key.
    func decryptContentKey(_ bytes: [UInt8], iv: InitializationVector) throws -> ContentKey

    /// The code for `PayloadIntegrity` of a CKC: HMAC-SHA-256 with the key of the CKC's payload. Nil where the kit
    /// gives none; a CKC that has a code is refused then.
    func authenticationCode(of message: [UInt8]) throws -> [UInt8]?
}

extension KeyPayload {
    /// Nil: without a code of its own. Never throws.
    public func authenticationCode(of message: [UInt8]) throws -> [UInt8]? { nil }
}
