// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import Testing

@testable import LatchkeyOffline

struct ItemTablesTests {
    private let urls = (0..<3).map { "https://media.example/\($0).m4s" }

    /// One piece for each resource, none of which the index knows.
    private var unknown: ItemTables {
        var tables = ItemTables(blockSize: 1024)
        var pieces: [CachedPiece] = []
        for (number, url) in urls.enumerated() {
            pieces.append(
                CachedPiece(
                    track: 0, resource: tables.resource(url).number, offset: 0, length: nil, begin: .seconds(number),
                    duration: .seconds(1)))
        }
        tables.setPieces(pieces)
        return tables
    }

    @Test func piecesFollowTheNumbersOfTheirResources() {
        var tables = unknown
        #expect(tables.pieces.allSatisfy { $0.resource < 0 })
        let added = tables.number(urls + urls)
        #expect(added.map(\.url) == urls && added.map(\.number) == [1, 2, 3])
        #expect(tables.pieces.map(\.resource) == [1, 2, 3])
        #expect(tables.pieces.map { tables.url(of: $0) } == urls)
        let none = tables.number(urls)
        #expect(none.isEmpty)
        let other = tables.number(["https://media.example/3.m4s"])
        #expect(other.map(\.number) == [4] && tables.pieces.map(\.resource) == [1, 2, 3])
    }

    /// Each block that comes asks for it.
    @Test func theFirstGapIsLookedForFromTheLastOneOn() {
        let count = 1000
        let record = ItemRecord(
            url: "https://media.example/a.m3u8", format: .hls, selection: TrackSelection(), isPlanned: true)
        var tables = ItemTables(blockSize: 1024)
        var (resources, pieces): ([CachedResource], [CachedPiece]) = ([], [])
        for number in 0..<count {
            var resource = tables.numbered(tables.resource("https://media.example/\(number).m4s"))
            resource.size = 1500
            tables.replace(with: resource)
            resources.append(resource)
            pieces.append(
                CachedPiece(
                    track: 0, resource: resource.number, offset: 0, length: nil, begin: .seconds(number),
                    duration: .seconds(1)))
        }
        tables.setPieces(pieces)
        for resource in resources {
            for block: UInt64 in 0...1 {
                let gap = tables.firstGap(of: record)
                #expect(gap?.url == resource.url && gap?.block == block)
                tables.add(block, of: resource)
            }
        }
        var gap = tables.firstGap(of: record)
        #expect(gap?.url == nil)
        #expect(tables.looks <= 4 * count)
        // Altered on disk.
        tables.remove(1, of: resources[700])
        tables.remove(0, of: resources[300])
        gap = tables.firstGap(of: record)
        #expect(gap?.url == resources[300].url && gap?.block == 0)
        tables.add(0, of: resources[300])
        gap = tables.firstGap(of: record)
        #expect(gap?.url == resources[700].url && gap?.block == 1)
        tables.add(1, of: resources[700])
        gap = tables.firstGap(of: record)
        #expect(gap?.url == nil)
        #expect(tables.looks <= 7 * count)
    }

    @Test func theEndOfWhatIsThereIsKept() {
        var tables = ItemTables(blockSize: 1024)
        var resource = tables.numbered(tables.resource(urls[0]))
        resource.size = 4500
        tables.replace(with: resource)
        let steps: [(added: UInt64?, removed: UInt64?, end: UInt64)] = [
            (1, nil, 0), (0, nil, 2048), (3, nil, 2048), (2, nil, 4096), (4, nil, 4500), (nil, 1, 1024), (nil, 3, 1024),
            (1, nil, 3072), (1, nil, 3072), (3, nil, 4500), (nil, 0, 0),
        ]
        for step in steps {
            if let block = step.added { tables.add(block, of: resource) }
            if let block = step.removed { tables.remove(block, of: resource) }
            #expect(tables.presentEnd(of: urls[0]) == step.end)
            #expect(tables.isPresent(0, nil, of: resource) == (step.end == 4500))
            #expect(tables.isPresent(0, step.end, of: resource))
            let missing = tables.missing(resource.number, from: 0, to: 5, limit: 1)
            let expected: UInt64? = step.end == 4500 ? nil : step.end / 1024
            #expect(missing?.lowerBound == expected)
        }
        // The first block is missing, and no other.
        #expect(tables.isPresent(1024, nil, of: resource))
        #expect(tables.missing(resource.number, from: 1, to: 5, limit: 1) == nil)
    }

    /// Another process has stored some of them meanwhile.
    @Test func piecesFollowTheNumbersThatTheIndexHas() {
        var tables = unknown
        let last = tables.pieces[2].resource
        let contents = IndexContents(
            record: nil, resources: [CachedResource(number: 7, url: urls[1]), CachedResource(number: 9, url: urls[0])],
            pieces: [], blocks: [:], keys: [:], refusals: [:])
        tables.take(contents, keepingPlan: true)
        #expect(tables.pieces.map(\.resource) == [9, 7, last])
        #expect(tables.pieces.map { tables.url(of: $0) } == urls)
    }
}
