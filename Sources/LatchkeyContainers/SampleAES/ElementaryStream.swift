// SPDX-License-Identifier: MPL-2.0

/// One PID whose packets are put together: a protected elementary stream, or sections.
struct ElementaryStream {
    enum Content: Equatable {
        case samples(SampleAESCodec)
        case sections
    }

    /// Packets whose payloads belong together, linked in the store.
    struct Unit {
        var codec: SampleAESCodec
        /// The number of the first packet.
        var first: Int
        /// Of all payloads, in bytes.
        var size: Int
    }

    let pid: Int
    var content: Content {
        didSet { isSamples = content != .sections }
    }
    private(set) var isSamples: Bool
    /// The first packet of the unit that is being put together, or -1.
    var first = -1
    var last = -1
    /// In bytes, up to now.
    var size = 0
    /// In bytes; zero where only the next unit's start tells the end.
    var expectedSize = 0
    /// From this size on, there is something to do.
    var wantedSize = 0
    /// -1: any is right.
    var lastCounter = -1

    init(pid: Int, content: Content) {
        self.pid = pid
        self.content = content
        isSamples = content != .sections
    }

    var isOpen: Bool { first >= 0 }

    /// Takes a packet in the middle of a PES packet, as most are. False: it needs a closer look.
    @inline(__always)
    mutating func goOn(_ packet: TransportPacket, _ number: Int) -> Bool {
        let counter = Int(packet.continuityCounter)
        let size = packet.payloadSize
        guard packet.isPlain, isOpen, isSamples, counter == (lastCounter + 1) & 0x0F, size > 0,
            self.size + size < wantedSize
        else { return false }
        last = number
        self.size += size
        lastCounter = counter
        return true
    }

    mutating func reset() {
        first = -1
        lastCounter = -1
    }
}
