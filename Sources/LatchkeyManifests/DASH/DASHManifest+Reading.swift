// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension XMLLimits {
    /// For manifests of adaptive streaming. Long timelines have an element for each segment. GStreamer's demuxers
    /// read no more bytes; with the documents that they make of it, the largest manifest takes less than 256 MiB.
    public static let manifest = XMLLimits(size: 10_000_000, elements: 131_072, markup: 440_000)
}

extension XMLElement {
    /// The value of the attribute with this local name, in whatever namespace.
    func attribute(anyNamespace localName: String) -> String? {
        self[attribute: localName] ?? attributes.first { $0.localName == localName }?.value
    }
}

extension DASHManifest {
    /// The most different sets of descriptors that are kept; ads and languages repeat the same ones.
    private static let protectionLimit = 1024
    /// The most AdaptationSets and Representations that are looked at, and the most descriptors of one element.
    private static let setLimit = 8192
    private static let descriptorLimit = 32
    /// Initialization data of all different descriptors together, in bytes.
    private static let dataLimit = 2 << 20

    /// Reads a manifest. Throws what `XMLElement(reading:limits:)` throws, and `malformed` where the document is none.
    ///
    /// What is wrong inside a descriptor is no error: it is told by `flaws`.
    public init(_ bytes: some Collection<UInt8>) throws(FormatError) {
        let root = try XMLElement(reading: bytes, limits: .manifest)
        guard root.localName == "MPD" else { throw .malformed("no MPD: the document is something else") }
        isDynamic = root[attribute: "type"] == "dynamic"
        minimumUpdatePeriod = root[attribute: "minimumUpdatePeriod"].flatMap { Duration(iso8601: $0) }
        location = root.child("Location").map(\.trimmedText).flatMap { $0.isEmpty ? nil : $0 }
        protections = []
        qualities = []
        var collector = Collector()
        collector.collect(root)
        protections = collector.protections
        qualities = collector.qualities
    }

    /// Goes through Periods, AdaptationSets and Representations. Descriptors are told apart by numbers, because most
    /// are repeated many times.
    private struct Collector {
        private var descriptors: [DASHContentProtection] = []
        private var numbers: [DASHContentProtection: Int] = [:]
        private var sets: [[Int]] = []
        private var known: Set<[Int]> = []
        /// By `refId`; a `ref` anywhere stands for them (23009-1, fifth edition).
        private var shared: [String: Int] = [:]
        private var setCount = 0
        private var dataSize = 0
        private(set) var qualities: [PictureQuality] = []

        var protections: [Protection] {
            sets.map { numbers in Protection(descriptors: numbers.map { descriptors[$0] }) }
        }

        mutating func collect(_ root: XMLElement) {
            let common = numbers(of: root)
            for period in root.children where period.localName == "Period" {
                let inPeriod = common + numbers(of: period)
                for set in period.children where set.localName == "AdaptationSet" {
                    collect(set: set, inherited: inPeriod)
                }
            }
        }

        private mutating func collect(set: XMLElement, inherited: [Int]) {
            let ofSet = numbers(of: set)
            var hasOwn = false
            for representation in set.children where representation.localName == "Representation" {
                note(representation)
                let own = numbers(of: representation)
                if own.isEmpty { continue }
                hasOwn = true
                keep(inherited + ofSet + own)
            }
            if !hasOwn { keep(inherited + ofSet) }
        }

        /// GStreamer's demuxer goes by what the Representation says itself, and not by what it inherits.
        private mutating func note(_ representation: XMLElement) {
            guard qualities.count < DASHManifest.setLimit,
                let rate = representation[attribute: "bandwidth"].flatMap({ UInt32($0) }),
                let width = representation[attribute: "width"].flatMap({ UInt32($0) }),
                let height = representation[attribute: "height"].flatMap({ UInt32($0) })
            else { return }
            qualities.append(PictureQuality(bitRate: rate, width: width, height: height))
        }

        private mutating func keep(_ numbers: [Int]) {
            guard !numbers.isEmpty, sets.count < DASHManifest.protectionLimit, known.insert(numbers).inserted else {
                return
            }
            sets.append(numbers)
        }

        private mutating func numbers(of element: XMLElement) -> [Int] {
            setCount += 1
            guard setCount <= DASHManifest.setLimit else { return [] }
            let elements = element.children.lazy.filter { $0.localName == "ContentProtection" }
            return elements.prefix(DASHManifest.descriptorLimit).compactMap { number(of: $0) }
        }

        private mutating func number(of element: XMLElement) -> Int? {
            if let reference = element[attribute: "ref"], let known = shared[reference] { return known }
            let descriptor = DASHContentProtection(element)
            let number: Int
            if let known = numbers[descriptor] {
                number = known
            } else {
                dataSize += descriptor.dataSize
                guard dataSize <= DASHManifest.dataLimit else { return nil }
                number = descriptors.count
                descriptors.append(descriptor)
                numbers[descriptor] = number
            }
            if let id = element[attribute: "refId"] { shared[id] = number }
            return number
        }
    }
}

extension Duration {
    /// Reads `P…DT…H…M…S` (ISO 8601), whole days and less. Nil for anything else, for months and years, which have no
    /// fixed length, and for a thousand years and more.
    public init?(iso8601 text: String) {
        var rest = Substring(text)
        guard rest.popFirst() == "P", !rest.isEmpty else { return nil }
        var seconds = 0.0
        var isTime = false
        while let first = rest.first {
            if first == "T" {
                isTime = true
                rest.removeFirst()
                continue
            }
            let digits = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            rest = rest.dropFirst(digits.count)
            guard let number = Double(digits), let unit = rest.popFirst() else { return nil }
            switch (unit, isTime) {
            case ("D", false): seconds += number * 86_400
            case ("H", true): seconds += number * 3600
            case ("M", true): seconds += number * 60
            case ("S", true): seconds += number
            default: return nil
            }
        }
        guard seconds < 3.2e10 else { return nil }
        self = .milliseconds(Int64((seconds * 1000).rounded()))
    }
}
