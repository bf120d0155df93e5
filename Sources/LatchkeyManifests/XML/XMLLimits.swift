// SPDX-License-Identifier: MPL-2.0

/// What an XML document may ask for before it is refused.
public struct XMLLimits: Hashable, Sendable {
    /// In bytes, of the document.
    public var size: Int
    /// How far elements may be nested.
    public var depth: Int
    /// How many elements the whole document may have.
    public var elements: Int
    /// In one tag, namespace declarations included. GStreamer's demuxers compare each with each.
    public var attributes: Int
    /// Tags, comments, processing instructions and attributes of the whole document together: each costs a reader that
    /// keeps the document a hundred bytes and more, however short it is.
    public var markup: Int

    /// Sizes in bytes, the others are counts. The defaults are enough for a header and for a licence exchange.
    public init(size: Int, depth: Int = 32, elements: Int = 4096, attributes: Int = 64, markup: Int = 1 << 19) {
        self.size = size
        self.depth = depth
        self.elements = elements
        self.attributes = attributes
        self.markup = markup
    }

    /// For a WRMHEADER, which a PlayReady object limits to 64 KiB of UTF-16.
    public static let header = XMLLimits(size: 64 * 1024)
    /// For a request to a licence service and its answer.
    public static let exchange = XMLLimits(size: 2 * 1024 * 1024)
}
