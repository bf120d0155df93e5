// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension ElementReference {
    /// Calls `body` with each stream of a collection, and with the collection, as decodebin3 chooses what it plays: true for a
    /// stream that is to play, false for one that is not, nil where decodebin3 decides.
    ///
    /// On the thread that chooses, which has a lock of decodebin3: `body` must not block, and may be called several times for a
    /// stream. The element keeps it.
    public func onStreamSelection(_ body: @escaping @Sendable (StreamDescription, [StreamDescription]) -> Bool?) {
        connectSignal(
            "select-stream", of: UnsafeMutableRawPointer(pointer), unsafeBitCast(selectionSignal, to: GCallback.self),
            SelectionHandler(body))
    }
}

private final class SelectionHandler {
    let body: @Sendable (StreamDescription, [StreamDescription]) -> Bool?
    init(_ body: @escaping @Sendable (StreamDescription, [StreamDescription]) -> Bool?) { self.body = body }
}

private let selectionSignal:
    @convention(c) (
        UnsafeMutablePointer<GstElement>?, UnsafeMutablePointer<GstStreamCollection>?, UnsafeMutablePointer<GstStream>?,
        gpointer?
    ) -> gint = { _, collection, stream, data in
        guard let collection, let stream, let data else { return -1 }
        let handler = Unmanaged<SelectionHandler>.fromOpaque(data).takeUnretainedValue()
        return handler.body(StreamDescription(stream), StreamDescription.all(of: collection)).map { $0 ? 1 : 0 } ?? -1
    }
