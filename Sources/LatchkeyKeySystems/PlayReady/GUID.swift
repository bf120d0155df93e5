// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// 16 bytes that name something in PlayReady's formats: an output protection, a domain, a revocation list.
///
/// Microsoft stores them in "GUID order": the first three numbers of the text form are little-endian (MS-DTYP, 2.3.4.2).
public struct GUID: Hashable, Sendable {
    private let value: KeyID

    /// Reads the text form, with or without braces, in either case.
    public init?(_ text: some StringProtocol) {
        guard let system = ProtectionSystem(uuid: text), let value = KeyID(hex: system.uuid) else { return nil }
        self.value = value
    }

    /// Nil unless there are exactly 16 bytes.
    public init?(guidOrder bytes: some Collection<UInt8>) {
        guard let value = KeyID(guidOrder: bytes) else { return nil }
        self.value = value
    }

    /// Nil unless there are exactly 16 bytes.
    public init?(uuidOrder bytes: some Collection<UInt8>) {
        guard let value = KeyID(bytes) else { return nil }
        self.value = value
    }

    /// The same 16 bytes, taken as those of the text form.
    public init(_ keyID: KeyID) { value = keyID }

    /// 16 bytes, the first three numbers little-endian: as PlayReady stores it.
    public var guidOrderBytes: [UInt8] { value.guidOrderBytes }
    /// 16 bytes in the order of the text form, all big-endian (RFC 9562, 4).
    public var uuidOrderBytes: [UInt8] { value.bytes }

    /// As if the bytes had been read in the other order.
    public var swapped: GUID { GUID(guidOrder: value.bytes) ?? self }
}

extension GUID: CustomStringConvertible {
    /// The text form in upper case, without braces.
    public var description: String { value.uuidString.uppercased() }
}

extension KeyID {
    /// Takes 16 bytes in GUID order, as WRMHEADER and XMR have KIDs. Nil for another number of bytes.
    public init?(guidOrder bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        self.init(Self.swapped(Array(bytes)))
    }

    /// The 16 bytes in GUID order: the first four, the next two and the two behind them are each turned round.
    public var guidOrderBytes: [UInt8] { Self.swapped(bytes) }

    private static func swapped(_ bytes: [UInt8]) -> [UInt8] {
        [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].map { bytes[$0] }
    }
}
