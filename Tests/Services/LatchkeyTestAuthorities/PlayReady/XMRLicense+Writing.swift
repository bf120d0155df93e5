// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

extension XMRLicense {
    /// A license made of objects. `sign` is given the bytes that the signature covers and returns the 16 bytes of it.
    ///
    /// `objects` are those of the outer container without the signature. Throws what `sign` throws, and the errors of
    /// reading if the objects make no license.
    package static func make(
        rightsID: GUID, objects: [XMRObject], sign: ([UInt8]) throws -> [UInt8]
    ) throws -> XMRLicense {
        func bytes(_ signature: [UInt8]) -> [UInt8] {
            let signature = XMRObject(.signature, bigEndian(UInt16(1)) + bigEndian(UInt16(16)) + signature)
            let outer = XMRObject(.outer, objects + [signature])
            return magic + bigEndian(version) + (rightsID.uuidOrderBytes + outer.serialized)
        }
        let draft = try XMRLicense(reading: bytes([UInt8](repeating: 0, count: 16)))
        return try XMRLicense(reading: bytes(sign(Array(draft.signedBytes))))
    }
}

extension XMRTerms {
    /// The objects of the outer container, without the signature: playback policy, global policy, key material, as far
    /// as there is something in them. What is read from them is equal to these terms.
    package var objects: [XMRObject] {
        var objects: [XMRObject] = []
        if allowsPlayback { objects.append(XMRObject(.playbackPolicy, flags: .container, playbackObjects)) }
        objects.append(XMRObject(.globalPolicy, globalObjects))
        objects.append(XMRObject(.keyMaterial, keyObjects))
        return objects
    }

    private var globalObjects: [XMRObject] {
        var objects: [XMRObject] = []
        func add<Value>(_ kind: XMRObject.Kind, _ value: Value?, _ flags: XMRObject.Flags, _ body: (Value) -> [UInt8]) {
            if let value { objects.append(XMRObject(kind, body(value), flags: flags)) }
        }
        if begin != nil || end != nil {
            let body = bigEndian(begin ?? 0) + bigEndian(end ?? Self.noEnd)
            objects.append(XMRObject(.expiration, body))
        }
        add(.issueDate, issueDate, [], bigEndian)
        add(.revocationInformationVersion, revocationInformationVersion, .mustUnderstand, bigEndian)
        add(.securityLevel, minimumSecurityLevel, .mustUnderstand, bigEndian)
        add(.embeddingBehavior, embeddingBehavior, [], bigEndian)
        add(.rightsSettings, settings, .mustUnderstand, bigEndian)
        add(.expirationAfterFirstPlay, expirationAfterFirstPlay, .mustUnderstand, bigEndian)
        add(.expirationAfterFirstUse, expirationAfterFirstUse, .mustUnderstand, bigEndian)
        add(.expirationAfterFirstStore, expirationAfterFirstStore, .mustUnderstand, bigEndian)
        add(.gracePeriod, gracePeriod, .mustUnderstand, bigEndian)
        add(.removalDate, removalDate, [], bigEndian)
        if hasRealTimeExpiration { objects.append(XMRObject(.realTimeExpiration, [UInt8]())) }
        add(.sourceID, sourceID, .mustUnderstand, bigEndian)
        add(.domain, domain, .mustUnderstand) { $0.accountID.guidOrderBytes + bigEndian($0.revision) }
        add(.meteringID, meteringID, .mustUnderstand, \.guidOrderBytes)
        add(.secureStopID, secureStopID, .mustUnderstand, \.guidOrderBytes)
        for item in policyMetadata {
            objects.append(XMRObject(.policyMetadata, item.id.guidOrderBytes + item.data, flags: []))
        }
        return objects
    }

    private var playbackObjects: [XMRObject] {
        var objects: [XMRObject] = []
        if let levels = outputLevels {
            let values = [
                levels.compressedDigitalVideo, levels.uncompressedDigitalVideo, levels.analogVideo,
                levels.compressedDigitalAudio, levels.uncompressedDigitalAudio,
            ]
            objects.append(XMRObject(.outputLevels, values.flatMap { bigEndian($0) }))
        }
        func add(_ container: XMRObject.Kind, _ item: XMRObject.Kind, _ items: [ExplicitProtection]) {
            guard !items.isEmpty else { return }
            objects.append(XMRObject(container, items.map { XMRObject(item, $0.id.guidOrderBytes + $0.data) }))
        }
        add(.explicitAnalogProtections, .explicitAnalogProtection, analogProtections)
        add(.explicitDigitalVideoProtections, .explicitDigitalVideoProtection, digitalVideoProtections)
        add(.explicitDigitalAudioProtections, .explicitDigitalAudioProtection, digitalAudioProtections)
        add(.playEnablers, .playEnabler, playEnablers.map { ExplicitProtection($0) })
        return objects
    }

    private var keyObjects: [XMRObject] {
        var objects: [XMRObject] = []
        if let key {
            let head = bigEndian(key.type.rawValue) + bigEndian(key.cipher.rawValue)
            let size = bigEndian(UInt16(clamping: key.data.count))
            objects.append(XMRObject(.contentKey, key.keyID.guidOrderBytes + head + size + key.data))
        }
        if let boundKey {
            let head = bigEndian(UInt16(1)) + bigEndian(UInt16(clamping: boundKey.count))
            objects.append(XMRObject(.eccKey, head + boundKey, flags: []))
        }
        if let uplink {
            let head = bigEndian(uplink.checksumType) + bigEndian(UInt16(clamping: uplink.checksum.count))
            objects.append(XMRObject(.uplinkKeyID, uplink.keyID.guidOrderBytes + head + uplink.checksum))
        }
        if !auxiliaryKeys.isEmpty {
            let items = auxiliaryKeys.flatMap { bigEndian($0.location) + $0.key }
            objects.append(XMRObject(.auxiliaryKeys, bigEndian(UInt16(clamping: auxiliaryKeys.count)) + items))
        }
        return objects
    }
}

extension XMRObject {
    /// The bytes of the object. Sizes beyond 32 bits cannot come up: no reader takes them, and no license is that long.
    package var serialized: [UInt8] {
        var bytes = bigEndian(flags.rawValue) + bigEndian(type.rawValue) + bigEndian(UInt32(clamping: size))
        switch body {
        case .data(let data): bytes += data
        case .objects(let objects): for object in objects { bytes += object.serialized }
        }
        return bytes
    }
}
