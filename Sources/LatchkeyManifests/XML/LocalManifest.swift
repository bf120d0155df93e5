// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// A manifest of DASH or Smooth Streaming on this device.
package enum LocalManifest {
    /// Elements whose text is a URL of media, or of the manifest itself (ISO/IEC 23009-1, 5.3 and 5.6).
    private static let elements: Set<String> = ["BaseURL", "Location", "PatchLocation"]
    /// Attributes that are, or have templates of, such URLs (the same, and [MS-SSTR], 2.2.2.3). GStreamer's demuxer reads them
    /// in any namespace.
    private static let attributes: Set<String> = [
        "media", "index", "initialization", "bitstreamSwitching", "sourceURL", "Url",
    ]
    /// Types of a manifest that has later versions, which may name anything (the same, 5.3.1.2, and its drafts).
    private static let liveTypes: Set<String> = ["dynamic", "Live"]

    /// Whether the manifest, which came from `url`, is a file, stays as it is, and names media in files alone. False where it
    /// cannot be read.
    package static func namesFilesOnly(_ bytes: some Collection<UInt8>, from url: String) -> Bool {
        guard URIReference(url).filePath != nil, let root = try? XMLElement(reading: bytes, limits: .manifest) else {
            return false
        }
        let isLive = root.attributes.contains { attribute in
            switch attribute.localName {
            case "type": liveTypes.contains(attribute.value)
            case "IsLive": attribute.value.lowercased() == "true"
            default: false
            }
        }
        return !isLive && namesFilesOnly(root)
    }

    private static func namesFilesOnly(_ element: XMLElement) -> Bool {
        element.attributes.allSatisfy { attribute in
            switch attribute.localName {
            // What comes from elsewhere is not known here.
            case "href": attribute.value == "urn:mpeg:dash:resolve-to-zero:2013"
            // Templates take it in, and a scheme with it.
            case "id": element.localName != "Representation" || !attribute.value.utf8.contains(UInt8(ascii: ":"))
            case let name: !attributes.contains(name) || isFile(attribute.value)
            }
        }
            // GStreamer's demuxer takes the text of elements within for that of this one.
            && (!elements.contains(element.localName) || element.children.isEmpty && isFile(element.text))
            && element.children.allSatisfy(namesFilesOnly)
    }

    /// Whether a reference is relative, or the URL of a file: other schemes have servers, and templates may make one up.
    private static func isFile(_ reference: String) -> Bool {
        let reference = reference.drop { $0.isWhitespace }
        guard !reference.utf8.starts(with: "//".utf8) else { return false }
        return !reference.utf8.prefix { !"/?#".utf8.contains($0) }.contains(UInt8(ascii: ":"))
            || URIReference(reference).filePath != nil
    }
}
