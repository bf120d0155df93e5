// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// A manifest of DASH or Smooth Streaming on this device.
package enum LocalManifest {
    /// Elements whose text is a URL of media, or of the manifest itself (ISO/IEC 23009-1, 5.3 and 5.6).
    private static let elements: Set<String> = ["BaseURL", "Location", "PatchLocation"]
    /// Attributes that are, or have templates of, such URLs (the same, and [MS-SSTR], 2.2.2.3).
    private static let attributes: Set<String> = [
        "media", "index", "initialization", "bitstreamSwitching", "sourceURL", "Url",
    ]

    /// Whether the manifest, which came from `url`, is a file, stays as it is, and names media in files alone. False where it
    /// cannot be read.
    package static func namesFilesOnly(_ bytes: some Collection<UInt8>, from url: String) -> Bool {
        guard URIReference(url).filePath != nil, let root = try? XMLElement(reading: bytes, limits: .manifest) else {
            return false
        }
        return root[attribute: "type"] != "dynamic" && root[attribute: "IsLive"]?.lowercased() != "true"
            && namesFilesOnly(root)
    }

    private static func namesFilesOnly(_ element: XMLElement) -> Bool {
        let isText = elements.contains(element.localName)
        let references = element.attributes.filter { attribute in
            attribute.namespace.isEmpty ? attributes.contains(attribute.localName) : attribute.localName == "href"
        }
        return (references.map(\.value) + (isText ? [element.trimmedText] : [])).allSatisfy { text in
            !URIReference(text.drop { $0.isWhitespace }).isHTTP
        } && element.children.allSatisfy(namesFilesOnly)
    }
}
