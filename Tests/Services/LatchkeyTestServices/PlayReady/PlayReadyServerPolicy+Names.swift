// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection

extension PlayReadyServerPolicy {
    mutating func set(_ name: String, _ value: String, _ grant: inout Grant) throws(ParseError) {
        switch name {
        case "errorcode":
            let code: UInt32 = try Self.number(name, value)
            fault = PlayReadyFault(code: code, text: "asked for", customData: fault?.customData ?? customData)
        case "redirect":
            fault = PlayReadyFault(
                code: PlayReadyFault.redirect, text: "asked for",
                redirectURL: value.replacing("%3A", with: ":").replacing("%2C", with: ","))
        case "defect":
            guard let known = Defect(rawValue: value) else {
                throw ParseError(
                    description: "defect: \(Defect.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            defect = known
        case "customdata":
            customData = value
            fault?.customData = value
        case "tid": transactionID = try Self.bytes(name, value)
        case "crl": revocationListVersion = try Self.number(name, value)
        case "revoke":
            revoked.append(value)
            revocationListVersion = revocationListVersion ?? 1
        case "life": grant.lifetime = try Self.number(name, value)
        case "kid": grant.keyID = value == "header" ? nil : try Self.keyID(value)
        case "contentkey", "ck":
            var bytes = try Self.bytes(name, value)
            defer { wipe(&bytes) }
            guard let key = ContentKey(bytes) else { throw ParseError(description: "contentkey: 16 bytes") }
            grant.key = key
        case "ckt":
            guard let type = ["aesctr": XMRTerms.KeyType.aesCTR, "aescbc": .aesCBC][value.lowercased()] else {
                throw ParseError(description: "ckt: aesctr or aescbc")
            }
            grant.keyType = type
        case "domain":
            guard let id = GUID(value) else { throw ParseError(description: "domain: a GUID") }
            grant.domain = id
        case "rightsid":
            guard let id = GUID(value) else { throw ParseError(description: "rightsid: a GUID") }
            grant.rightsID = id
        default: try Self.set(name, value, &grant.terms)
        }
    }

    private static func set(_ name: String, _ value: String, _ terms: inout XMRTerms) throws(ParseError) {
        var levels = terms.outputLevels ?? .init()
        switch name {
        case "sl": terms.minimumSecurityLevel = try number(name, value)
        case "persist": terms.cannotPersist = try !flag(name, value)
        case "begindate": terms.begin = try date(name, value)
        case "enddate": terms.end = try date(name, value)
        case "removaldate": terms.removalDate = try date(name, value)
        case "firstexp": terms.expirationAfterFirstPlay = try number(name, value)
        case "realtime": terms.hasRealTimeExpiration = try flag(name, value)
        case "grace": terms.gracePeriod = try number(name, value)
        case "play": terms.allowsPlayback = try flag(name, value)
        case "cvopl": levels.compressedDigitalVideo = try number(name, value)
        case "ucvopl": levels.uncompressedDigitalVideo = try number(name, value)
        case "avopl": levels.analogVideo = try number(name, value)
        case "caopl": levels.compressedDigitalAudio = try number(name, value)
        case "ucaopl": levels.uncompressedDigitalAudio = try number(name, value)
        case "playenablers":
            let bare = value.hasPrefix("(") && value.hasSuffix(")") ? String(value.dropFirst().dropLast()) : value
            guard let id = GUID(bare) else { throw ParseError(description: "playenablers: a GUID") }
            terms.playEnablers.append(id)
        default: throw ParseError(description: "“\(name)” is not known")
        }
        if levels != terms.outputLevels ?? .init() || name.hasSuffix("opl") { terms.outputLevels = levels }
    }

    private static func number<Number: FixedWidthInteger>(
        _ name: String, _ value: String
    ) throws(ParseError) -> Number {
        let isHexadecimal = value.lowercased().hasPrefix("0x")
        guard let number = isHexadecimal ? Number(value.dropFirst(2), radix: 16) : Number(value) else {
            throw ParseError(description: "\(name): a number of at most \(Number.bitWidth) bits")
        }
        return number
    }

    private static func flag(_ name: String, _ value: String) throws(ParseError) -> Bool {
        switch value.lowercased() {
        case "true", "1": true
        case "false", "0": false
        default: throw ParseError(description: "\(name): true or false")
        }
    }

    private static func bytes(_ name: String, _ value: String) throws(ParseError) -> [UInt8] {
        guard let bytes = Base64.decode(value) else { throw ParseError(description: "\(name): Base64") }
        return bytes
    }

    private static func keyID(_ value: String) throws(ParseError) -> KeyID {
        if let keyID = KeyID(hex: value) { return keyID }
        guard let keyID = KeyID(guidOrder: try bytes("kid", value)) else {
            throw ParseError(description: "kid: 16 bytes in Base64, or a UUID")
        }
        return keyID
    }

    /// Seconds since 1970.
    private static func date(_ name: String, _ value: String) throws(ParseError) -> UInt32 {
        let digits = Array(value.utf8)
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }), digits.count <= 10 || digits.count == 14 else {
            throw ParseError(description: "\(name): seconds, yyyymmdd or yyyymmddhhmmss")
        }
        guard digits.count == 8 || digits.count == 14 else { return try number(name, value) }
        func part(_ range: Range<Int>) -> Int {
            range.upperBound > digits.count ? 0 : Int(value.dropFirst(range.lowerBound).prefix(range.count)) ?? 0
        }
        let (year, month, day) = (part(0..<4), part(4..<6), part(6..<8))
        let (hour, minute, second) = (part(8..<10), part(10..<12), part(12..<14))
        guard (1970...2105).contains(year), (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60,
            second < 60
        else { throw ParseError(description: "\(name): no date from 1970 to 2105") }
        // Days since 1970, with years that start in March.
        let shifted = month > 2 ? year : year - 1
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
        return UInt32(days * 86400 + hour * 3600 + minute * 60 + second)
    }
}
