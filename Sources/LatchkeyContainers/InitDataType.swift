// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
public import LatchkeyProtection

/// How initialization data is written, by its name in W3C's "EME Initialization Data Format Registry"
/// (<https://www.w3.org/TR/eme-initdata-registry/>).
public enum InitDataType: String, Sendable, CaseIterable {
    /// One or more `pssh` boxes in a row.
    case cenc
    /// JSON: `{"kids":["base64url", …]}`.
    case keyids
    /// The KID alone, from `ContentEncKeyID`: 16 bytes here.
    case webm
}

extension InitDataType {
    /// The most bytes of a `keyids` text that are read.
    public static let maximumKeyIDsSize = 64 * 1024

    /// The KIDs that `bytes` names in this format, each once, in order of appearance.
    ///
    /// A `pssh` box of version 0 lists none; a ClearKey box may have a `keyids` object in its Data, which is read too.
    /// Throws what `PSSHBox.boxes(in:)` throws, and `malformed` for a KID that is
    /// not 16 bytes long.
    public func keyIDs(in bytes: [UInt8]) throws(FormatError) -> [KeyID] {
        switch self {
        case .cenc:
            return unique(try PSSHBox.boxes(in: bytes).flatMap(keyIDs(of:)))
        case .keyids:
            return unique(try Self.keyIDs(inJSON: bytes))
        case .webm:
            guard let keyID = KeyID(bytes) else {
                throw .malformed("webm initialization data: a KID of \(bytes.count) bytes, not 16")
            }
            return [keyID]
        }
    }

    /// The KIDs that can be read out of initialization data of unknown origin, each once.
    ///
    /// Tries all formats, and `pssh` boxes in Base64, which is how a DASH manifest has them. Boxes that cannot be read
    /// are left out. Unreadable bytes have no KIDs; that is no error.
    public static func anyKeyIDs(in bytes: [UInt8]) -> [KeyID] {
        if let keyIDs = try? Self.keyIDs(inJSON: bytes) { return unique(keyIDs) }
        if let keyID = KeyID(bytes) { return [keyID] }
        let boxes = PSSHBox.readableBoxes(in: bytes)
        if !boxes.isEmpty { return unique(boxes.flatMap(keyIDs(of:))) }
        guard bytes.count <= maximumKeyIDsSize, let decoded = base64Text(bytes) else { return [] }
        return unique(PSSHBox.readableBoxes(in: decoded).flatMap(keyIDs(of:)))
    }

    private static func base64Text(_ bytes: [UInt8]) -> [UInt8]? {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || 0x09...0x0D ~= $0 || $0 == 0 }
        return Base64.decode(String(decoding: bytes.filter { !isSpace($0) }, as: UTF8.self))
    }

    private struct KeyIDsObject: Decodable {
        var kids: [String]
    }

    private static func keyIDs(inJSON bytes: [UInt8]) throws(FormatError) -> [KeyID] {
        guard bytes.count <= maximumKeyIDsSize else {
            throw .tooLarge("keyids initialization data of \(bytes.count) bytes; \(maximumKeyIDsSize) are read")
        }
        // Most initialization data is no JSON: a look at the first byte saves the decoder's work.
        let first = bytes.first { $0 != 0x20 && !(0x09...0x0D ~= $0) }
        guard first == UInt8(ascii: "{") else { throw .malformed("keyids initialization data: no JSON object") }
        guard JSONNesting.isBounded(bytes),
            let object = try? JSONDecoder().decode(KeyIDsObject.self, from: Data(bytes))
        else {
            throw .malformed("keyids initialization data: no JSON object with a list “kids”")
        }
        var keyIDs: [KeyID] = []
        for (position, text) in object.kids.enumerated() {
            guard let keyID = Base64.decode(text).flatMap({ KeyID($0) }) else {
                throw .malformed("keyids initialization data: KID \(position) is not 16 bytes of Base64")
            }
            keyIDs.append(keyID)
        }
        return keyIDs
    }
}

/// The KIDs that a box lists, and those in its Data where ClearKey packagers put a `keyids` object there instead.
private func keyIDs(of box: PSSHBox) -> [KeyID] {
    guard box.system == .clearKey || box.system == .common else { return box.keyIDs }
    return box.keyIDs + ((try? InitDataType.keyids.keyIDs(in: box.data)) ?? [])
}

/// `keyIDs` without repeats, in order of first appearance.
private func unique(_ keyIDs: [KeyID]) -> [KeyID] {
    var seen: Set<KeyID> = []
    return keyIDs.filter { seen.insert($0).inserted }
}
