// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization
import Testing

/// The part above the kernel's calls, against a device that is a value. Numbers are those of `drm_mode.h`.
@Suite struct KMSOutputsTests {
    private final class Device: KMSDevice {
        var list: [KMSConnector]
        var failure: OutputError?
        var written: [(property: UInt32, value: UInt64)] = []

        init(_ list: [KMSConnector]) { self.list = list }

        func connectors() throws(OutputError) -> [KMSConnector] {
            if let failure { throw failure }
            return list
        }

        func setProperty(
            _ property: UInt32, to value: UInt64, on connector: KMSConnector
        ) throws(OutputError) { written.append((property, value)) }
    }

    private static func connector(
        type: UInt32 = 11, _ protection: UInt64? = nil, type1: UInt64? = nil, connected: Bool = true,
        pictures: Bool = true
    ) -> KMSConnector {
        KMSConnector(
            id: 33, type: type, isConnected: connected, hasPictures: pictures,
            contentProtection: protection.map { .init(id: 7, value: $0) },
            contentType: type1.map { .init(id: 8, value: $0) })
    }

    private static func facts(_ connectors: [KMSConnector]) -> OutputFacts {
        KMSOutputs(devices: [Device(connectors)]).read()
    }

    @Test func connectorTypesAreKinds() {
        let kinds: [(ClosedRange<UInt32>, [Output.Kind])] = [
            (
                0...21,
                [
                    .unknown, .analogMonitor, .analogMonitor, .digital, .analogMonitor, .analogVideo, .analogVideo,
                    .internalPanel, .analogVideo, .analogVideo, .digital, .digital, .digital, .analogVideo,
                    .internalPanel, .insecure, .internalPanel, .internalPanel, .insecure, .unknown, .insecure, .unknown,
                ]
            )
        ]
        for (range, expected) in kinds {
            for (type, kind) in zip(range, expected) {
                guard case .outputs(let outputs) = Self.facts([Self.connector(type: type)]) else {
                    #expect(Bool(false), "unreadable")
                    continue
                }
                #expect(outputs.map(\.kind) == [kind], "connector type \(type)")
            }
        }
    }

    @Test func propertiesAreProtections() {
        let rows: [(UInt64?, UInt64?, Output.Protection)] = [
            (nil, nil, .none), (0, nil, .none), (0, 1, .none), (1, 0, .requested), (1, 1, .requested),
            (2, nil, .hdcpType0), (2, 0, .hdcpType0), (2, 1, .hdcpType1), (3, 1, .none), (nil, 1, .none),
        ]
        for (protection, type, expected) in rows {
            let facts = Self.facts([Self.connector(protection, type1: type)])
            #expect(facts == .outputs([Output(name: "HDMI-A-1", kind: .digital, protection: expected)]))
        }
    }

    @Test func onlyWhatShowsPicturesCounts() {
        let connectors = [Self.connector(connected: false), Self.connector(pictures: false)]
        #expect(Self.facts(connectors) == .outputs([]))
    }

    @Test func oneDeviceThatCannotBeReadMakesAllUnreadable() {
        let broken = Device([])
        broken.failure = KMSOutputsTests.failure
        guard case .unreadable = KMSOutputs(devices: [Device([Self.connector(2)]), broken]).read() else {
            return #expect(Bool(false), "read in spite of a failure")
        }
        guard case .unreadable(let reason) = KMSOutputs(devices: []).read() else {
            return #expect(Bool(false), "read without a device")
        }
        #expect(reason.contains("/dev/dri"))
    }

    /// As in a container without udevd: no event tells of a card.
    @Test func aCardThatComesLaterIsFoundWithoutAnEvent() throws {
        let folder = NSTemporaryDirectory() + "/drm-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func add(_ name: String) throws {
            try FileManager.default.createDirectory(atPath: "\(folder)/\(name)", withIntermediateDirectories: true)
        }
        try add("card0")
        let cards = Cards()
        let outputs = KMSOutputs(folder: folder) { () throws(OutputError) in
            cards.found.withLock { $0 += 1 }
            return (0..<cards.count.withLock { $0 }).map { _ in Device([Self.connector(2)]) }
        }
        let output = Output(name: "HDMI-A-1", kind: .digital, protection: .hdcpType0)
        #expect(outputs.read() == .outputs([output]))
        // A screen is plugged in, and a device that only renders comes.
        try add("card0-HDMI-A-1")
        try add("renderD128")
        #expect(outputs.read() == .outputs([output]) && cards.found.withLock { $0 } == 1)
        try add("card1")
        cards.count.withLock { $0 = 2 }
        #expect(outputs.read() == .outputs([output, output]))
        #expect(outputs.read() == .outputs([output, output]) && cards.found.withLock { $0 } == 2)
        try FileManager.default.removeItem(atPath: folder + "/card1")
        cards.count.withLock { $0 = 1 }
        #expect(outputs.read() == .outputs([output]))
        // A process in a sandbox sees no list any more, and keeps what it has open.
        try FileManager.default.removeItem(atPath: folder)
        #expect(outputs.read() == .outputs([output]) && cards.found.withLock { $0 } == 3)
    }

    /// What there is, and how often it was looked for.
    private final class Cards: Sendable {
        let count = Mutex(1)
        let found = Mutex(0)
    }

    private static var failure: OutputError? {
        do throws(OutputError) {
            _ = try DRMCard(path: "/nonexistent")
            return nil
        } catch { return error }
    }

    @Test func aRequestSetsWhatIsMissing() throws {
        // Content Protection, HDCP Content Type, what is wanted, and what is written.
        let rows: [(UInt64, UInt64?, OutputRequirement, [String])] = [
            (0, 0, .unprotected, []), (0, nil, .hdcpType0, ["7=1"]), (0, 0, .hdcpType1, ["8=1", "7=1"]),
            (1, 0, .hdcpType0, []), (2, 0, .hdcpType1, ["8=1"]), (2, 1, .hdcpType0, []), (0, 1, .hdcpType0, ["7=1"]),
        ]
        for (protection, type, requirement, expected) in rows {
            let device = Device([
                Self.connector(protection, type1: type), Self.connector(type: 14, 0),
                Self.connector(0, connected: false),
            ])
            try HDCPRequest(device).request(requirement)
            #expect(device.written.map { "\($0.property)=\($0.value)" } == expected, "\(protection) \(requirement)")
        }
        for (protection, requirement) in [(nil as UInt64?, OutputRequirement.hdcpType0), (0, .hdcpType1)] {
            let device = Device([Self.connector(protection)])
            #expect(throws: OutputError.self) { try HDCPRequest(device).request(requirement) }
            #expect(device.written.isEmpty)
        }
    }
}
