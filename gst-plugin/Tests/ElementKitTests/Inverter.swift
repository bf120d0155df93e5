// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

final class Inverter: Element, @unchecked Sendable {
    static let factory = ElementDescription(
        factory: "ekinverter", longName: "Inverter", classification: "Filter", summary: "Inverts every bit",
        author: "The Latchkey authors", padTemplates: [.sink("ANY"), .source("ANY")],
        properties: [
            Property(
                "mask", nick: "Mask", blurb: "The bits to invert", kind: .uint(default: 255, range: 0...255),
                mutability: .playing, get: { .uint(UInt32(($0 as? Inverter)?.mask ?? 0)) },
                set: { element, value in
                    if case .uint(let mask) = value { (element as? Inverter)?.mask = UInt8(mask) }
                })
        ], implementation: Inverter.self)

    private let monitor = Monitor()
    private var guardedMask: UInt8 = 255
    var mask: UInt8 {
        get { monitor.withLock { guardedMask } }
        set { monitor.withLock { guardedMask = newValue } }
    }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        let source = Pad(.source("ANY"), of: reference)
        let sink = Pad(.sink("ANY"), of: reference)
        super.init(reference, description)
        sink.onEvent { source.push($0) }
        sink.onChain { [unowned self] buffer in
            guard buffer.isMemoryWritable else { return .error }
            let mask = mask
            _ = buffer.withMutableBytes { bytes in
                for index in bytes.indices { bytes[index] ^= mask }
            }
            return source.push(buffer)
        }
        add(source)
        add(sink)
    }
}
