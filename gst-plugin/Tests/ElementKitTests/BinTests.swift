// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Synchronization
import Testing

/// A bin around `identity` that notes what it sees.
private final class Wrapper: Bin, @unchecked Sendable {
    static let factory = ElementDescription(
        factory: "ekwrapper", longName: "Wrapper", classification: "Generic", summary: "Wraps identity",
        author: "The Latchkey authors",
        padTemplates: [.sink("ANY"), .sometimesSource("out_%u", "ANY")], implementation: Wrapper.self)

    let child: ElementReference?
    private let monitor = Monitor()
    private var seen: [String] = []
    var appeared: [String] { monitor.withLock { seen } }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        child = ElementReference.make("identity")
        super.init(reference, description)
        declareStreamsAware()
        guard let child, add(child), let sink = child.pad("sink") else { return }
        expose(sink, as: "sink", template: "sink")
    }

    override func elementDidAppear(_ element: ElementReference) {
        monitor.withLock { seen.append(element.factoryName ?? "") }
    }

    override func handle(_ message: consuming Message) {
        guard message.kind == .element, let child, message.isFrom(child) else { return forward(message) }
        reference.post("replaced", [])
    }

    override func send(_ event: consuming Event) -> Bool { event.kind == .gap }

    override func answer(_ query: borrowing Query) -> Bool {
        guard query.kind == .uri else { return super.answer(query) }
        query.answer(uri: "test:answered")
        return true
    }
}

@Suite final class BinTests {
    private let element: UnsafeMutablePointer<GstElement>
    private let bin: Wrapper
    private let bus: MessageBus

    init() throws {
        TestProcess.prepare
        #expect(ElementType.register(Wrapper.factory))
        guard let element = gst_element_factory_make("ekwrapper", nil), let bin = Wrapper.implementation(of: element)
        else { throw TestFailure("no ekwrapper") }
        gst_object_ref_sink(element)
        self.element = element
        bus = MessageBus()
        self.bin = bin
        gst_element_set_bus(element, bus.pointer)
    }

    deinit {
        gst_element_set_state(element, GST_STATE_NULL)
        gst_element_set_bus(element, nil)
        gst_object_unref(element)
    }

    @Test func exposesThePadsOfItsChildren() throws {
        let source = try #require(bin.child?.pad("src"))
        #expect(ElementReference(element).pad("sink") != nil)
        #expect(ElementReference(element).pad("out_0") == nil)
        let exposed = try #require(bin.expose(source, as: "out_0", template: "out_%u"))
        #expect(ElementReference(element).pad("out_0")?.isSame(as: exposed) == true)
        #expect(exposed.name == "out_0")
        bin.withdraw(exposed)
        #expect(ElementReference(element).pad("out_0") == nil)
    }

    @Test func hearsOfElementsAndMessagesInside() throws {
        let late = try #require(ElementReference.make("queue"))
        #expect(bin.add(late))
        #expect(bin.appeared == ["queue"])
        bin.child?.post("original", [])
        late.post("other", [])
        _ = try bus.next(element: "replaced")
        _ = try bus.next(element: "other")
        #expect(bus.count(element: "original") == 0)
    }

    /// An error of a child is seen and goes its way all the same; other messages are not seen.
    @Test func seesErrorsInside() throws {
        let seen = Mutex<[String]>([])
        ElementReference(element).observeErrorsInside { source, text in
            seen.withLock { $0.append("\(source): \(text)") }
        }
        let late = try #require(ElementReference.make("queue"))
        #expect(bin.add(late))
        late.post("other", [])
        late.postError(GST_STREAM_ERROR_DEMUX, "no media", debug: "")
        _ = try bus.next(element: "other")
        #expect(try bus.nextError().text == "no media")
        #expect(seen.withLock { $0 } == ["queue: no media"])
    }

    @Test func addsDetailsToErrorsAlone() throws {
        func added(_ details: String?, isError: Bool = true) throws -> BusMessage {
            let error = g_error_new_literal(gst_stream_error_quark(), 3, "text")
            defer { g_error_free(error) }
            let make = isError ? gst_message_new_error : gst_message_new_warning
            let message = try #require(make(ek_as_object(element), error, details))
            let changed = Message(owning: message).addingErrorDetails("more").release()
            defer { gst_message_unref(changed) }
            return BusMessage(changed)
        }
        #expect(try added("place\nadvice").debug == "place\nmore\nadvice")
        #expect(try added("place").debug == "place\nmore")
        #expect(try added(nil).text == "text")
        #expect(try added("place", isError: false).debug == "place")
    }

    @Test func changesTheTextsOfMessages() throws {
        func change(_ message: UnsafeMutablePointer<GstMessage>?) throws -> BusMessage {
            let number = gst_message_get_seqnum(message)
            let changed = Message(owning: try #require(message)).mapTexts { $0.uppercased() }.release()
            defer { gst_message_unref(changed) }
            #expect(gst_message_get_seqnum(changed) == number)
            #expect(ek_message_source(changed) == ek_as_object(element))
            return BusMessage(changed)
        }
        let source = ek_as_object(element)
        let fields = try change(
            gst_message_new_element(
                source, gst_structure_from_string("kind, a=(string)one, b=(guint64)2, c=(string)THREE;", nil)))
        #expect(fields.name == "kind")
        #expect(fields.string("a") == "ONE" && fields.string("c") == "THREE" && fields.number("b") == 2)
        #expect(try change(gst_message_new_element(source, gst_structure_new_empty("none"))).name == "none")

        let error = g_error_new_literal(gst_stream_error_quark(), 3, "text")
        defer { g_error_free(error) }
        for make in [gst_message_new_error, gst_message_new_warning] {
            let report = try change(make(source, error, "details"))
            #expect(report.text == "TEXT" && report.debug == "DETAILS" && report.code == 3)
            #expect(report.name == String(cString: g_quark_to_string(gst_stream_error_quark())))
            #expect(try change(make(source, error, nil)).text == "TEXT")
        }
        let noted = gst_message_new_error_with_details(
            source, error, "details", gst_structure_from_string("details, http-status-code=(uint)404;", nil))
        let changed = Message(owning: try #require(noted)).mapTexts { $0.uppercased() }.release()
        defer { gst_message_unref(changed) }
        var details: UnsafePointer<GstStructure>?
        gst_message_parse_error_details(changed, &details)
        #expect(gst_structure_has_field(details, "http-status-code") != 0)
        #expect(try change(gst_message_new_info(source, error, "details")).type == "info")
        #expect(try change(gst_message_new_eos(source)).type == "eos")
    }

    @Test func tellsWhatAStreamStoppedWith() {
        let source = ek_as_object(element)
        for (code, details, flow) in [
            (1, "details, flow-return=(int)-5;", FlowResult.error),
            (1, "details, flow-return=(int)-4;", .notNegotiated),
            (1, "details;", nil), (1, nil, nil), (4, "details, flow-return=(int)-5;", nil),
        ] as [(gint, String?, FlowResult?)] {
            let error = g_error_new_literal(gst_stream_error_quark(), code, "text")
            defer { g_error_free(error) }
            let structure = details.flatMap { gst_structure_from_string($0, nil) }
            guard let message = gst_message_new_error_with_details(source, error, "debug", structure) else { continue }
            let read = Message(owning: message)
            let (stopped, text) = (read.stoppedFlow, read.errorDetails())
            #expect(stopped == flow && text == "debug")
        }
    }

    @Test func takesEventsThatAreSentToIt() throws {
        let isGapTaken = ElementReference(element).send(Event(owning: gst_event_new_gap(0, 1)))
        let isEndTaken = ElementReference(element).send(Event.endOfStream())
        #expect(isGapTaken)
        #expect(!isEndTaken)
    }

    @Test func answersQueriesThatAreSentToIt() throws {
        let place = try #require(gst_query_new_uri())
        defer { ek_mini_object_unref(place) }
        #expect(gst_element_query(element, place) != 0)
        var uri: UnsafeMutablePointer<gchar>?
        gst_query_parse_uri(place, &uri)
        #expect(uri.map { String(cString: $0) } == "test:answered")
        g_free(uri)
        // What it does not answer itself goes the usual way: nobody here knows of a duration.
        let duration = try #require(gst_query_new_duration(GST_FORMAT_TIME))
        defer { ek_mini_object_unref(duration) }
        #expect(gst_element_query(element, duration) == 0)
    }

    /// Serialized events and buffers hold the pad while they are inside.
    @Test func waitsForWhoIsInsideAPad() async throws {
        let sink = try #require(bin.child?.pad("sink"))
        #expect(sink.waitUntilIdle(milliseconds: 0))
        gst_element_set_state(element, GST_STATE_PLAYING)
        let (entered, hasEntered) = AsyncStream.makeStream(of: Void.self)
        let mayLeave = DispatchSemaphore(value: 0)
        sink.probeEvents(.downstream) { event in
            hasEntered.finish()
            mayLeave.wait()
            return event
        }
        let thread = Thread { _ = gst_pad_send_event(sink.pointer, gst_event_new_stream_start("id")) }
        thread.start()
        for await _ in entered {}
        #expect(!sink.waitUntilIdle(milliseconds: 3))
        mayLeave.signal()
        #expect(sink.waitUntilIdle(milliseconds: 60_000))
        gst_element_set_state(element, GST_STATE_NULL)
    }

    @Test func knowsWhetherItsParentHandlesStreams() throws {
        #expect(!bin.isParentStreamsAware)
        let outer = try #require(gst_element_factory_make("ekwrapper", nil))
        gst_object_ref_sink(outer)
        defer { gst_object_unref(outer) }
        let around = try #require(Wrapper.implementation(of: outer))
        #expect(around.add(ElementReference(element)))
        #expect(bin.isParentStreamsAware)
    }

    @Test func probesDropAndReplace() throws {
        let sink = try #require(bin.child?.pad("sink"))
        let source = try #require(bin.child?.pad("src"))
        gst_element_set_state(element, GST_STATE_PLAYING)
        let recorder = StreamRecorder()
        let (old, caps) = (try #require(Caps("text/x-old")), try #require(Caps("text/x-new")))
        let events = sink.probeEvents(.downstream) { event in
            if event.kind == .caps { return Event(caps: caps) }
            if event.kind == .gap { return nil }
            return event
        }
        let buffers = sink.probeBuffers { buffer in
            if buffer.size == 1 { return nil }
            return Buffer(copying: [UInt8](repeating: 9, count: buffer.size))
        }
        recorder.attach(to: source.pointer)
        for event in [
            gst_event_new_stream_start("id"), old.withPointer { gst_event_new_caps($0) },
            gst_event_new_gap(0, 1),
        ] {
            let made = try #require(event)
            #expect(gst_pad_send_event(sink.pointer, made) != 0)
        }
        var segment = GstSegment()
        gst_segment_init(&segment, GST_FORMAT_BYTES)
        #expect(gst_pad_send_event(sink.pointer, gst_event_new_segment(&segment)) != 0)
        for size in [1, 2] {
            _ = sink.chain(try Buffer.made(of: [UInt8](repeating: 0, count: size)))
        }
        #expect(recorder.caps == ["text/x-new"])
        #expect(!recorder.order.contains("gap"))
        #expect(recorder.samples.map(\.bytes) == [[9, 9]])

        events.remove()
        buffers.remove()
        let barrier = sink.dropBuffers()
        let result = sink.chain(try Buffer.made(of: [1, 2, 3]))
        #expect(result == .ok)
        barrier.remove()
        _ = sink.chain(try Buffer.made(of: [4]))
        #expect(recorder.samples.map(\.bytes) == [[9, 9], [4]])
        gst_element_set_state(element, GST_STATE_NULL)
    }
}

extension BinTests {
    /// What comes after the last look is not shown any more. A look may begin at an event.
    @Test func looksEnd() throws {
        let sink = try #require(bin.child?.pad("sink"))
        let source = try #require(bin.child?.pad("src"))
        gst_element_set_state(element, GST_STATE_PLAYING)
        let recorder = StreamRecorder()
        recorder.attach(to: source.pointer)
        let seen = Mutex<[Int]>([])
        let pad = WeakPad(sink)
        sink.probeEvents(.downstream) { event in
            guard event.kind == .segment else { return event }
            pad.pad?.lookAtBuffers { buffer in
                let size = buffer.size
                seen.withLock { $0.append(size) }
                return size == 1 ? .more : size == 2 ? .drop : .enough
            }
            return event
        }
        let start = try #require(gst_event_new_stream_start("id"))
        #expect(gst_pad_send_event(sink.pointer, start) != 0)
        var segment = GstSegment()
        gst_segment_init(&segment, GST_FORMAT_BYTES)
        for _ in 0..<2 {
            #expect(gst_pad_send_event(sink.pointer, gst_event_new_segment(&segment)) != 0)
            for size in [1, 2, 3, 4] {
                // The recorder sees what leaves, though nothing is linked there.
                _ = sink.chain(try Buffer.made(of: [UInt8](repeating: 0, count: size)))
            }
        }
        #expect(seen.withLock { $0 } == [1, 2, 3, 1, 2, 3])
        #expect(recorder.samples.map(\.bytes.count) == [1, 3, 4, 1, 3, 4])
        gst_element_set_state(element, GST_STATE_NULL)
    }
}

extension Buffer {
    fileprivate static func made(of bytes: [UInt8]) throws -> Buffer {
        guard let buffer = Buffer(copying: bytes) else { throw TestFailure("no memory") }
        return buffer
    }
}
