// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// What an element written in Swift derives from: the Swift half of one `GstElement`.
///
/// GStreamer makes the object with the element and drops it with the element. Subclasses make and add pads in `init` and
/// override what they need. Every method may be called from any thread, as in C.
open class Element: @unchecked Sendable {
    // SAFETY: the class itself only holds constants; subclasses guard their own state, as GStreamer elements must.

    /// The C half. Not owned: it owns this object.
    public let reference: ElementReference
    /// The factory that the element came from.
    public let description: ElementDescription
    private var pads: [Pad] = []

    /// Called by GStreamer alone, with the new C object. Subclasses that override it make and add their pads there.
    public required init(_ reference: ElementReference, _ description: ElementDescription) {
        self.reference = reference
        self.description = description
    }

    /// Adds a pad, with its handlers set. Call it in `init` only.
    public func add(_ pad: Pad) {
        pads.append(pad)
        gst_element_add_pad(reference.pointer, pad.pointer)
    }

    /// A state change. Call `perform` once: it runs the parent class's part, which activates and deactivates pads.
    open func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult { perform() }

    /// A context was set on the element. The parent class keeps it as well. Post and query nothing here: a bin that passes
    /// a context on to a new child holds its own lock.
    open func contextDidChange(_ context: Context) {}

    /// The Swift object of an element of this kit.
    static func of(_ instance: UnsafeMutableRawPointer) -> Element {
        // SAFETY: only called with instances of types that ElementType registered; the object is set in instance init.
        let object = ek_swift_object(instance).pointee
        return Unmanaged<Element>.fromOpaque(object.unsafelyUnwrapped).takeUnretainedValue()
    }

    /// The Swift object behind `element`, where that is an element of this class.
    public static func implementation(of element: UnsafeMutablePointer<GstElement>) -> Self? {
        guard ElementType.isRegistered(ek_object_type(element)) else { return nil }
        return of(UnsafeMutableRawPointer(element)) as? Self
    }
}

/// A step of an element's state.
public enum StateChange: Sendable {
    /// From state to state; `other` is a change from a state to itself.
    case nullToReady, readyToPaused, pausedToPlaying, playingToPaused, pausedToReady, readyToNull, other

    init(_ change: GstStateChange) {
        self =
            switch change {
            case GST_STATE_CHANGE_NULL_TO_READY: .nullToReady
            case GST_STATE_CHANGE_READY_TO_PAUSED: .readyToPaused
            case GST_STATE_CHANGE_PAUSED_TO_PLAYING: .pausedToPlaying
            case GST_STATE_CHANGE_PLAYING_TO_PAUSED: .playingToPaused
            case GST_STATE_CHANGE_PAUSED_TO_READY: .pausedToReady
            case GST_STATE_CHANGE_READY_TO_NULL: .readyToNull
            default: .other
            }
    }
}

/// How a state change went.
public enum StateChangeResult: Sendable {
    /// Of `GstStateChangeReturn`; `noPreroll` is for live elements.
    case success, async, noPreroll, failure

    init(_ result: GstStateChangeReturn) {
        self =
            switch result {
            case GST_STATE_CHANGE_SUCCESS: .success
            case GST_STATE_CHANGE_ASYNC: .async
            case GST_STATE_CHANGE_NO_PREROLL: .noPreroll
            default: .failure
            }
    }

    var value: GstStateChangeReturn {
        switch self {
        case .success: GST_STATE_CHANGE_SUCCESS
        case .async: GST_STATE_CHANGE_ASYNC
        case .noPreroll: GST_STATE_CHANGE_NO_PREROLL
        case .failure: GST_STATE_CHANGE_FAILURE
        }
    }
}
