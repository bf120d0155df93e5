// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyContainers
import FoundationEssentials

extension WRMHeader {
    static func write(version: Version, keys: [Key], details: Details) throws(FormatError) -> XMLElement {
        try check(version: version, keys: keys, details: details)
        func element(_ name: String, _ attributes: [XMLElement.Attribute] = [], _ nodes: [XMLElement.Node])
            -> XMLElement
        {
            XMLElement(name, namespace: namespace, attributes: attributes, nodes: nodes)
        }
        func leaf(_ name: String, _ text: String) -> XMLElement.Node {
            .element(element(name, [], text.isEmpty ? [] : [.text(text)]))
        }
        var data: [XMLElement.Node] = []
        var protection: [XMLElement.Node] = []
        if version == .v4_0, let key = keys.first, let algorithm = key.algorithm {
            protection = [leaf("KEYLEN", algorithm == .cocktail ? "7" : "16"), leaf("ALGID", algorithm.rawValue)]
            data.append(leaf("KID", base64(key.keyID.guidOrderBytes)))
            if !key.checksum.isEmpty { data.append(leaf("CHECKSUM", base64(key.checksum))) }
        } else {
            let list = keys.map { key in
                var attributes: [XMLElement.Attribute] = []
                if let algorithm = key.algorithm { attributes.append(.init("ALGID", algorithm.rawValue)) }
                if !key.checksum.isEmpty { attributes.append(.init("CHECKSUM", base64(key.checksum))) }
                attributes.append(.init("VALUE", base64(key.keyID.guidOrderBytes)))
                return XMLElement.Node.element(element("KID", attributes, []))
            }
            protection = version == .v4_1 || list.isEmpty ? list : [.element(element("KIDS", [], list))]
        }
        let attributes = details.isLicenseRequested ? [] : [XMLElement.Attribute("LICENSEREQUESTED", "false")]
        if !protection.isEmpty || !attributes.isEmpty {
            data.insert(.element(element("PROTECTINFO", attributes, protection)), at: 0)
        }
        if let url = details.licenseAcquisitionURL { data.append(leaf("LA_URL", url)) }
        if let url = details.licenseUserInterfaceURL { data.append(leaf("LUI_URL", url)) }
        if let id = details.domainServiceID { data.append(leaf("DS_ID", base64(id.guidOrderBytes))) }
        if let custom = details.customAttributes { data.append(.element(custom)) }
        if details.isOnDemand { data.append(leaf("DECRYPTORSETUP", "ONDEMAND")) }
        return XMLElement(
            "WRMHEADER", namespace: namespace, declarations: [.init(uri: namespace)],
            attributes: [.init("version", version.rawValue)], nodes: [.element(element("DATA", [], data))])
    }

    private static func check(version: Version, keys: [Key], details: Details) throws(FormatError) {
        func require(_ condition: Bool, _ rule: String) throws(FormatError) {
            guard condition else { throw .malformed("WRMHEADER \(version.rawValue): \(rule)") }
        }
        if version == .v4_0 { try require(keys.count == 1, "exactly one KID") }
        if version == .v4_1 { try require(keys.count <= 1, "one KID at most") }
        try require(Set(keys.map(\.algorithm)).count <= 1, "one cipher for all KIDs")
        for key in keys {
            if version < .v4_3 {
                try require(key.algorithm == .aesCTR || key.algorithm == .cocktail, "AESCTR or COCKTAIL for each KID")
            }
            let size = key.algorithm == .cocktail ? 7 : key.algorithm == .aesCBC ? 0 : 8
            try require(key.checksum.isEmpty || key.checksum.count == size, "a checksum of \(size) bytes")
        }
        try require(version > .v4_0 || !details.isOnDemand, "no DECRYPTORSETUP")
        try require(version == .v4_3 || details.isLicenseRequested, "no LICENSEREQUESTED")
        try require(details.customAttributes.map { $0.localName == "CUSTOMATTRIBUTES" } ?? true, "CUSTOMATTRIBUTES")
    }

    private static func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }
}
