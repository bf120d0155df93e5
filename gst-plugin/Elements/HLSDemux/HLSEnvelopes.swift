// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

/// Segments in envelopes: no tag of the playlist tells, so where parsers for envelopes are known, the first segment is looked
/// at. What is a transport stream or packed audio goes on encrypted, to the decryptor inside the stock demuxer; fragmented MP4 is
/// opened here.
struct HLSEnvelopes: Sendable {
    let parsers: EnvelopeParsers
    let origin: HLSOrigin
    let keys: HLSKeys

    /// What is asked for of a first segment: enough for the PlayReady header, so that the key can be asked for too.
    private static let probeSize: UInt64 = 4096

    /// Whether the segment is in an envelope. A segment that cannot be had is none: the stock demuxer will say so.
    func isEnvelope(_ segment: HLSRewriting.SegmentProbe, _ request: LoopbackRequest) async -> Bool {
        let offset = segment.byteRange?.offset ?? 0
        let size = min(Self.probeSize, segment.byteRange?.length ?? .max)
        do throws(HLSFailure) {
            let range = HLSByteRange(offset: offset, length: size)
            let response = try await origin.response(.segment, segment.url, for: request, range: range)
            // A server without ranges sends all.
            let skipped = response.status == 200 ? Int(clamping: offset) : 0
            guard response.status == 200 || response.status == 206 else { return false }
            let start = Array(response.body.dropFirst(skipped).prefix(Int(clamping: size)))
            guard let parser = parsers.parser(of: start) else { return false }
            if let header = (try? parser.header(of: start)).flatMap(\.self), let keyID = Self.keyID(of: header) {
                keys.demand(keyID, of: header.playReadyObject)
            }
            return true
        } catch {
            HLSDemuxer.log.log(.warning, nil, error.text)
            return false
        }
    }

    /// What the stock demuxer gets of a segment. `hasOutput`: whether it has given media.
    func answer(
        _ segment: HLSEnvelopedSegment, _ request: LoopbackRequest, hasOutput: () -> Bool
    ) async throws(HLSFailure) -> LoopbackResponse {
        let bytes = try await origin.bytes(.segment, segment.url, for: request, range: segment.byteRange)
        let isCarried = segment.kind != .fragmentedMP4
        guard let parser = parsers.parser(of: bytes) else {
            let clear = CarriedSegment(keyID: nil, start: segment.start)
            return LoopbackResponse(
                body: isCarried ? clear.transportStreamPackets(of: bytes) : ID3Filter.filter(whole: bytes))
        }
        let header: EnvelopeHeader?
        do throws(FormatError) {
            header = try parser.header(of: bytes)
        } catch {
            throw .media("segment", at: segment.url, error.description)
        }
        guard let header, (0...bytes.count).contains(header.payloadOffset) else {
            throw .media("segment", at: segment.url, "its envelope ends within the header")
        }
        guard let keyID = Self.keyID(of: header) else {
            throw .media("segment", at: segment.url, "the PlayReady header of its envelope names no KID")
        }
        guard isCarried else { return try await open(bytes, header, keyID, segment) }
        // At the start it comes when the key is there, as the notes of other keys do.
        try await keys.wait(for: keyID, of: header.playReadyObject) { !hasOutput() }
        guard let counter = InitializationVector(header.initialCounter), header.initialCounter.count == 16 else {
            throw .media("segment", at: segment.url, "its envelope has no counter of 16 bytes")
        }
        let carried = CarriedSegment(keyID: keyID, initialCounter: counter, start: segment.start)
        return LoopbackResponse(body: carried.transportStreamPackets(of: bytes[header.payloadOffset...]))
    }

    private func open(
        _ bytes: [UInt8], _ header: EnvelopeHeader, _ keyID: KeyID, _ segment: HLSEnvelopedSegment
    ) async throws(HLSFailure) -> LoopbackResponse {
        let key = try await keys.contentKey(keyID, of: header.playReadyObject)
        do throws(PlayReadyError) {
            let clear = try LatchkeyEnvelope.open(bytes, header: header, key: key)
            return LoopbackResponse(body: ID3Filter.filter(whole: clear))
        } catch {
            throw .media("segment", at: segment.url, error.description)
        }
    }

    private static func keyID(of header: EnvelopeHeader) -> KeyID? {
        (try? header.playReadyObject.header()).flatMap(\.self)?.keys.first?.keyID
    }
}
