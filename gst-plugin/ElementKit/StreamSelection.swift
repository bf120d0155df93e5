// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension ElementReference {
    /// Calls `body` with each stream of a collection, and with the collection, as decodebin3 chooses what it plays: true for a
    /// stream that is to play, false for one that is not, nil where decodebin3 decides.
    ///
    /// On the thread that chooses, which has a lock of decodebin3: `body` must not block, and may be called several times for a
    /// stream. The element keeps it.
    public func onStreamSelection(_ body: @escaping @Sendable (StreamDescription, [StreamDescription]) -> Bool?) {
        // SAFETY: the connection owns the box and gives it up when it ends, with the element at the latest.
        g_signal_connect_data(
            UnsafeMutableRawPointer(pointer), "select-stream", unsafeBitCast(selectionSignal, to: GCallback.self),
            Unmanaged.passRetained(SelectionHandler(body)).toOpaque(),
            { data, _ in if let data { Unmanaged<SelectionHandler>.fromOpaque(data).release() } }, GConnectFlags(0))
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
