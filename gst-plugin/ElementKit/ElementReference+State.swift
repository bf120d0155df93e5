// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension ElementReference {
    /// Runs `body` while nobody changes the state of the pipeline around the element: at once where nobody does, else on
    /// a thread of GStreamer's when the change is over. What there is to do then is for `body` to see.
    ///
    /// For a flush that no seek asked for. A sink that is flushed while it goes to NULL waits there for a preroll for
    /// ever, and a queue starts its thread again while it is stopped.
    public func whileStateStays(_ body: @escaping @Sendable () -> Void) {
        if withStateLock(waiting: false, body) { return }
        // SAFETY: GStreamer keeps the element until the call is over, and gives up the box once.
        gst_element_call_async(
            pointer,
            { element, box in
                guard let element, let box else { return }
                let body = Unmanaged<StateBody>.fromOpaque(box).takeUnretainedValue().body
                _ = ElementReference(element).withStateLock(waiting: true, body)
            }, Unmanaged.passRetained(StateBody(body)).toOpaque(),
            { box in if let box { Unmanaged<StateBody>.fromOpaque(box).release() } })
    }

    /// Runs `body` on a thread of GStreamer's, and keeps the element until it is over.
    public func callAsync(_ body: @escaping @Sendable () -> Void) {
        // SAFETY: GStreamer calls this once and gives up the box once.
        gst_element_call_async(
            pointer, { _, box in if let box { Unmanaged<StateBody>.fromOpaque(box).takeUnretainedValue().body() } },
            Unmanaged.passRetained(StateBody(body)).toOpaque(),
            { box in if let box { Unmanaged<StateBody>.fromOpaque(box).release() } })
    }

    private func withStateLock(waiting: Bool, _ body: () -> Void) -> Bool {
        withTopLevel { top in
            let element = UnsafeMutableRawPointer(top).assumingMemoryBound(to: GstElement.self)
            // SAFETY: `withTopLevel` keeps the element, and the lock is a part of it.
            if waiting {
                g_rec_mutex_lock(&element.pointee.state_lock)
            } else if g_rec_mutex_trylock(&element.pointee.state_lock) == 0 {
                return false
            }
            defer { g_rec_mutex_unlock(&element.pointee.state_lock) }
            // The thread that changes the state gets the lock as well.
            if !waiting, element.pointee.pending_state != GST_STATE_VOID_PENDING { return false }
            body()
            return true
        }
    }
}

private final class StateBody {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}
