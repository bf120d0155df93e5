// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension XMRTerms {
    /// The end that stands for none.
    static let noEnd: UInt32 = 0xFFFF_FFFF

    /// Reads the objects of a licence.
    ///
    /// Throws `unsupported` for an object that has to be understood and is not known, also where a container is known but
    /// stands at another place, `duplicate` for one that comes twice and may not, `truncated` and `malformed` for a body
    /// that is not laid out as the table has it. Objects that need not be understood are left out.
    public init(_ license: XMRLicense) throws(FormatError) {
        var seen: Set<XMRObject.Kind> = []
        try Self.checkRepeats(in: license.outer, &seen)
        try readContainer(license.outer) { terms, object throws(FormatError) in
            switch object.type {
            case .globalPolicy:
                try terms.readContainer(object) { terms, object throws(FormatError) in try terms.readGlobal(object) }
            case .playbackPolicy:
                terms.allowsPlayback = true
                try terms.readContainer(object) { terms, object throws(FormatError) in try terms.readPlayback(object) }
            case .keyMaterial:
                try terms.readContainer(object) { terms, object throws(FormatError) in try terms.readKey(object) }
            case .signature: return true
            // Some servers put policies next to the containers.
            default: return try terms.readGlobal(object)
            }
            return true
        }
    }

    /// Two objects of one type could contradict each other, even in different containers.
    private static func checkRepeats(
        in container: XMRObject, _ seen: inout Set<XMRObject.Kind>
    ) throws(FormatError) {
        for object in container.objects {
            if object.type.name != nil, !object.type.mayRepeat, !seen.insert(object.type).inserted {
                throw .duplicate("the licence has two objects \(object.type)")
            }
            try checkRepeats(in: object, &seen)
        }
    }

    /// Gives each object of a container to `read`, which says whether it knows it.
    private mutating func readContainer(
        _ container: XMRObject, _ read: (inout XMRTerms, XMRObject) throws(FormatError) -> Bool
    ) throws(FormatError) {
        for object in container.objects {
            let isKnown = try read(&self, object)
            if !isKnown, object.flags.contains(.mustUnderstand), !object.type.onlyAllowsMore {
                throw .unsupported("the licence has an object \(object.type) that has to be understood")
            }
        }
    }

    private mutating func readGlobal(_ object: XMRObject) throws(FormatError) -> Bool {
        var body = ByteReader(object.data, structure: "XMR \(object.type)")
        switch object.type {
        case .expiration:
            (begin, end) = (try body.readUInt32(), try body.readUInt32())
            if end == Self.noEnd { end = nil }
        case .issueDate: issueDate = try body.readUInt32()
        case .removalDate: removalDate = try body.readUInt32()
        case .gracePeriod: gracePeriod = try body.readUInt32()
        case .expirationAfterFirstPlay: expirationAfterFirstPlay = try body.readUInt32()
        case .expirationAfterFirstUse: expirationAfterFirstUse = try body.readUInt32()
        case .expirationAfterFirstStore: expirationAfterFirstStore = try body.readUInt32()
        case .realTimeExpiration: hasRealTimeExpiration = true
        case .securityLevel: minimumSecurityLevel = try body.readUInt16()
        case .rightsSettings: settings = try body.readUInt16()
        case .embeddingBehavior: embeddingBehavior = try body.readUInt16()
        case .revocationInformationVersion: revocationInformationVersion = try body.readUInt32()
        case .sourceID: sourceID = try body.readUInt32()
        case .domain: domain = Domain(accountID: try body.readGUID(), revision: try body.readUInt32())
        case .meteringID: meteringID = try body.readGUID()
        case .secureStopID: secureStopID = try body.readGUID()
        case .policyMetadata: policyMetadata.append(try ExplicitProtection(reading: &body))
        default: return false
        }
        return try end(of: body)
    }

    private mutating func readPlayback(_ object: XMRObject) throws(FormatError) -> Bool {
        var body = ByteReader(object.data, structure: "XMR \(object.type)")
        switch object.type {
        case .outputLevels:
            outputLevels = OutputLevels(
                compressedDigitalVideo: try body.readUInt16(), uncompressedDigitalVideo: try body.readUInt16(),
                analogVideo: try body.readUInt16(), compressedDigitalAudio: try body.readUInt16(),
                uncompressedDigitalAudio: try body.readUInt16())
        case .explicitAnalogProtections:
            analogProtections += try protections(in: object, .explicitAnalogProtection)
        case .explicitDigitalVideoProtections:
            digitalVideoProtections += try protections(in: object, .explicitDigitalVideoProtection)
        case .explicitDigitalAudioProtections:
            digitalAudioProtections += try protections(in: object, .explicitDigitalAudioProtection)
        case .playEnablers:
            playEnablers += try items(in: object, .playEnabler) { body throws(FormatError) in try body.readGUID() }
        // Limits of time may stand here as well as in the global policy.
        default: return try readGlobal(object)
        }
        return try end(of: body)
    }

    private mutating func readKey(_ object: XMRObject) throws(FormatError) -> Bool {
        var body = ByteReader(object.data, structure: "XMR \(object.type)")
        switch object.type {
        case .contentKey: key = try WrappedKey(reading: &body)
        case .eccKey:
            let (curve, length) = (try body.readUInt16(), try body.readUInt16())
            guard curve == 1, length == 64 else { throw .unsupported("\(body.place): curve \(curve), \(length) bytes") }
            boundKey = Array(try body.readBytes(64))
        case .uplinkKeyID: uplink = try Uplink(reading: &body)
        case .auxiliaryKeys:
            for _ in 0..<(try body.readUInt16()) {
                let location = try body.readUInt32()
                auxiliaryKeys.append(AuxiliaryKey(location: location, key: Array(try body.readBytes(16))))
            }
        // How these are applied is not public.
        case .uplinkKeyIDs: return false
        default: return false
        }
        return try end(of: body)
    }

    private func protections(in object: XMRObject, _ kind: XMRObject.Kind) throws(FormatError) -> [ExplicitProtection] {
        try items(in: object, kind) { body throws(FormatError) in try ExplicitProtection(reading: &body) }
    }

    private func items<Item>(
        in container: XMRObject, _ kind: XMRObject.Kind, _ read: (inout ByteReader) throws(FormatError) -> Item
    ) throws(FormatError) -> [Item] {
        var items: [Item] = []
        for object in container.objects {
            guard object.type == kind else {
                guard !object.flags.contains(.mustUnderstand) else {
                    throw .unsupported("the licence has an object \(object.type) that has to be understood")
                }
                continue
            }
            var body = ByteReader(object.data, structure: "XMR \(kind)")
            items.append(try read(&body))
        }
        return items
    }

    /// Bytes behind what the table has might change the meaning.
    private func end(of body: ByteReader) throws(FormatError) -> Bool {
        let isRead = body.isAtEnd || body.offset == 0
        guard isRead else { throw .malformed("\(body.place): bytes behind the object") }
        return true
    }
}

extension XMRTerms.ExplicitProtection {
    init(reading body: inout ByteReader) throws(FormatError) {
        self.init(try body.readGUID())
        data = Array(body.rest)
        try body.skip(body.remaining)
    }
}

extension XMRTerms.WrappedKey {
    init(reading body: inout ByteReader) throws(FormatError) {
        guard let keyID = KeyID(guidOrder: try body.readBytes(16)) else { throw .malformed(body.place) }
        let (type, cipher) = (try body.readUInt16(), try body.readUInt16())
        guard let type = XMRTerms.KeyType(rawValue: type), let cipher = XMRTerms.KeyCipher(rawValue: cipher) else {
            throw .unsupported("\(body.place): key of type \(type), wrapped in way \(cipher)")
        }
        self.init(keyID: keyID, type: type, cipher: cipher, data: [])
        data = Array(try body.readBytes(try body.readUInt16()))
    }
}

extension XMRTerms.Uplink {
    init(reading body: inout ByteReader) throws(FormatError) {
        guard let keyID = KeyID(guidOrder: try body.readBytes(16)) else { throw .malformed(body.place) }
        self.init(keyID: keyID, checksumType: try body.readUInt16())
        checksum = Array(try body.readBytes(try body.readUInt16()))
    }
}

extension XMRObject.Kind {
    /// Whether a licence may hold more than one of these.
    fileprivate var mayRepeat: Bool {
        switch self {
        case .policyMetadata, .playEnabler, .explicitAnalogProtection, .explicitDigitalVideoProtection,
            .explicitDigitalAudioProtection:
            true
        default: false
        }
    }
}

extension ByteReader {
    /// 16 bytes in GUID order.
    mutating func readGUID() throws(FormatError) -> GUID {
        guard let guid = GUID(guidOrder: try readBytes(16)) else { throw .malformed(place) }
        return guid
    }
}
