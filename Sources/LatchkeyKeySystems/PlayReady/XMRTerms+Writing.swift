// SPDX-License-Identifier: MPL-2.0

extension XMRTerms {
    /// The objects of the outer container, without the signature: playback policy, global policy, key material, as far
    /// as there is something in them. What is read from them is equal to these terms.
    public var objects: [XMRObject] {
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
