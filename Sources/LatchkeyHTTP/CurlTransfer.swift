// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl
import LatchkeyProtection
import Synchronization

/// One libcurl easy handle and what it has received. Lives on the thread of its `CurlLoop` only.
final class CurlTransfer {
    let exchange: CurlExchange
    /// Owned. Must be out of the multi handle before this object goes.
    let handle: UnsafeMutableRawPointer

    private let curl: UnsafePointer<latchkey_curl>
    private var fields: UnsafeMutablePointer<curl_slist>?
    private var addresses: UnsafeMutablePointer<curl_slist>?
    private var filter: UnsafeMutablePointer<latchkey_address_filter>?
    private let errorText: UnsafeMutableBufferPointer<CChar>
    private let maximumSize: Int
    private var head = ResponseHead()
    private var body: [UInt8] = []
    /// What came of the body, in bytes.
    private var received = 0
    /// What the receiver gets in front of each piece; nil before the first.
    private var receiversHead: HTTPResponse?
    private var isTooLarge = false
    private var hasRefusedAddress = false

    /// A handle with all options set, ready to be added to a multi handle.
    init(_ exchange: CurlExchange, settings: CurlSettings, curl: UnsafePointer<latchkey_curl>) throws(HTTPError) {
        guard let handle = curl.pointee.easy_init() else {
            throw .other(exchange.url.text, "libcurl has no memory left")
        }
        self.exchange = exchange
        self.curl = curl
        self.handle = handle
        maximumSize = max(exchange.request.maximumResponseSize, 0)
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0)
        try configure(settings)
        try configureRequest()
    }

    deinit {
        curl.pointee.easy_cleanup(handle)
        curl.pointee.slist_free_all(fields)
        curl.pointee.slist_free_all(addresses)
        filter?.deallocate()
        errorText.deallocate()
        // What came of an answer that failed.
        wipe(&body)
    }

    // MARK: Options

    private func configure(_ settings: CurlSettings) throws(HTTPError) {
        // SAFETY: libcurl uses the context only while the handle is in the multi handle, and the loop holds this
        // object for that time. The text buffer is freed after the handle.
        let context = Unmanaged.passUnretained(self).toOpaque()
        try check(latchkey_curl_set_pointer(curl, handle, CURLOPT_WRITEDATA, context))
        try check(latchkey_curl_set_function(curl, handle, CURLOPT_WRITEFUNCTION, receiveBody))
        try check(latchkey_curl_set_pointer(curl, handle, CURLOPT_HEADERDATA, context))
        try check(latchkey_curl_set_function(curl, handle, CURLOPT_HEADERFUNCTION, receiveHeader))
        try check(latchkey_curl_set_pointer(curl, handle, CURLOPT_ERRORBUFFER, errorText.baseAddress))

        // libcurl must not touch the signal handlers of the application.
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_NOSIGNAL, 1))
        try check(latchkey_curl_abandon_lookups(curl, handle))
        try check(latchkey_curl_allow_http_only(curl, handle))
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_FOLLOWLOCATION, 0))
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_SSL_VERIFYPEER, 1))
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_SSL_VERIFYHOST, 2))
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)))
        // The answer of a proxy to CONNECT is no part of the response, and it sees none of the fields.
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1))
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE)))
        if let caFile = settings.caFile { try check(latchkey_curl_set_string(curl, handle, CURLOPT_CAINFO, caFile)) }
        if !settings.usesProxyEnvironment { try check(latchkey_curl_set_string(curl, handle, CURLOPT_PROXY, "")) }
        if exchange.request.forbidsLocalAddresses {
            let hasProxy = settings.usesProxyEnvironment && ProxyEnvironment.hasOne(for: exchange.url.scheme)
            try forbidLocalAddresses(hasProxy: hasProxy, context)
        }
        for entry in settings.addresses { addresses = try longer(addresses, entry) }
        if let addresses { try check(latchkey_curl_set_list(curl, handle, CURLOPT_RESOLVE, addresses)) }

        try check(latchkey_curl_set_long(curl, handle, CURLOPT_TIMEOUT_MS, milliseconds(exchange.timeout)))
        if let stall = exchange.request.stallTimeout {
            // Less than a byte a second, on average, for as long as that.
            try check(latchkey_curl_set_long(curl, handle, CURLOPT_LOW_SPEED_LIMIT, 1))
            try check(
                latchkey_curl_set_long(curl, handle, CURLOPT_LOW_SPEED_TIME, max(1, (milliseconds(stall) + 999) / 1000))
            )
        }
        let connectTimeout = milliseconds(exchange.request.connectTimeout)
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_CONNECTTIMEOUT_MS, connectTimeout))
    }

    private func forbidLocalAddresses(hasProxy: Bool, _ context: UnsafeMutableRawPointer) throws(HTTPError) {
        guard !hasProxy else {
            // The only connection is that to the proxy, which the environment names and may well be local.
            return try check(latchkey_curl_set_string(curl, handle, CURLOPT_NOPROXY, ""))
        }
        // An open connection was made for a request that may reach every address.
        try check(latchkey_curl_set_long(curl, handle, CURLOPT_FRESH_CONNECT, 1))
        let filter = UnsafeMutablePointer<latchkey_address_filter>.allocate(capacity: 1)
        filter.initialize(to: latchkey_address_filter(allows: allowsAddress, context: context))
        self.filter = filter
        try check(latchkey_curl_set_address_filter(curl, handle, filter))
    }

    private func configureRequest() throws(HTTPError) {
        let request = exchange.request
        try check(latchkey_curl_set_string(curl, handle, CURLOPT_URL, exchange.url.text))
        try check(latchkey_curl_set_string(curl, handle, CURLOPT_USERAGENT, "Latchkey"))
        if request.acceptsCompression || request.toleratesCompression && !request.isTakenAsItComes {
            // Empty: all codings that this libcurl can unpack.
            try check(latchkey_curl_set_string(curl, handle, CURLOPT_ACCEPT_ENCODING, ""))
        }
        if request.method == "HEAD" {
            try check(latchkey_curl_set_long(curl, handle, CURLOPT_NOBODY, 1))
        } else {
            if !request.body.isEmpty || request.method == "POST" {
                try check(latchkey_curl_set_long(curl, handle, CURLOPT_POST, 1))
                try check(latchkey_curl_set_offset(curl, handle, CURLOPT_POSTFIELDSIZE_LARGE, request.body.count))
                // SAFETY: libcurl copies as many bytes as the option before says.
                let code = request.body.withUnsafeBytes {
                    latchkey_curl_set_pointer(curl, handle, CURLOPT_COPYPOSTFIELDS, $0.baseAddress)
                }
                try check(code)
            }
            if request.method != "GET" && request.method != "POST" || request.method == "GET" && !request.body.isEmpty {
                try check(latchkey_curl_set_string(curl, handle, CURLOPT_CUSTOMREQUEST, request.method))
            }
            // Refuses a response that announces too much before its body comes. Zero would mean no limit.
            if maximumSize > 0 {
                try check(latchkey_curl_set_offset(curl, handle, CURLOPT_MAXFILESIZE_LARGE, maximumSize))
            }
        }

        var headers = request.headers
        if let cookies = request.cookies, cookies.attach(to: handle, curl) {
            // The caller's cookies have to be in one field with those of the store.
            let own = headers.filter { $0.isNamed("Cookie") }.map(\.value).joined(separator: "; ")
            headers.removeAll { $0.isNamed("Cookie") }
            if !own.isEmpty { try check(latchkey_curl_set_string(curl, handle, CURLOPT_COOKIE, own)) }
        }
        for header in headers {
            // libcurl's notation: "Name:" takes a field away, "Name;" sends it empty.
            try append(header.value.isEmpty ? "\(header.name);" : "\(header.name): \(header.value)")
        }
        // In the place of libcurl's own field.
        let says = { (name: String) in request.headers.contains { $0.isNamed(name) } }
        if request.toleratesCompression, !request.acceptsCompression, !says("Accept-Encoding") {
            try append("Accept-Encoding: identity")
        }
        // libcurl would wait a second for "100 Continue", and call every body a form.
        if !says("Expect") { try append("Expect:") }
        if !says("Content-Type") { try append("Content-Type:") }
        try check(latchkey_curl_set_list(curl, handle, CURLOPT_HTTPHEADER, fields))
    }

    private func append(_ field: String) throws(HTTPError) { fields = try longer(fields, field) }

    private func longer(
        _ list: UnsafeMutablePointer<curl_slist>?, _ entry: String
    ) throws(HTTPError) -> UnsafeMutablePointer<curl_slist> {
        guard let longer = curl.pointee.slist_append(list, entry) else {
            throw .other(exchange.url.text, "libcurl has no memory left")
        }
        return longer
    }

    private func check(_ code: CURLcode) throws(HTTPError) {
        guard code == CURLE_OK else {
            throw .other(exchange.url.text, "libcurl refuses a setting (\(meaning(of: code)))")
        }
    }

    /// libcurl's own text.
    private func meaning(of code: CURLcode) -> String {
        // SAFETY: a constant of libcurl's.
        curl.pointee.easy_strerror(code).map { String(cString: $0) } ?? ""
    }

    // MARK: Connecting

    /// Whether a connection to the address may be made; if not, libcurl tries the next one of the host.
    fileprivate func allows(_ address: UnsafeRawBufferPointer, family: Int32) -> Bool {
        let isLocal = LocalAddress.isOne(address, family: family)
        if isLocal { hasRefusedAddress = true }
        return !isLocal
    }

    // MARK: Received

    fileprivate enum Verdict {
        case taken, ends
        /// Not taken; libcurl brings it again.
        case waits
    }

    fileprivate func receive(header line: UnsafeRawBufferPointer) -> Verdict {
        if !head.receive(Array(line)) { isTooLarge = true }
        return isTooLarge ? .ends : .taken
    }

    fileprivate func receive(body bytes: UnsafeRawBufferPointer) -> Verdict {
        guard bytes.count <= maximumSize - received else {
            isTooLarge = true
            return .ends
        }
        if exchange.isHeldBack { return .waits }
        received += bytes.count
        if let receiver = exchange.receiver, let head = receiversHead ?? headOfSuccess() {
            receiversHead = head
            receiver(head, Array(bytes))
        } else {
            append(bytes)
            // SAFETY: libcurl hands over a buffer of its own that may be written to, and does not read again what was taken.
            explicitBzero(UnsafeMutableRawBufferPointer(mutating: bytes))
        }
        return .taken
    }

    /// The body may hold keys: as it grows, no copy is left behind.
    private func append(_ bytes: UnsafeRawBufferPointer) {
        if body.count + bytes.count > body.capacity {
            var larger: [UInt8] = []
            larger.reserveCapacity(max(body.count + bytes.count, 2 * body.capacity))
            larger += body
            wipe(&body)
            swap(&larger, &body)
        }
        body.append(contentsOf: bytes)
    }

    /// Nil where the answer is no success.
    private func headOfSuccess() -> HTTPResponse? {
        guard let status, 200...299 ~= status else { return nil }
        return HTTPResponse(status: status, headers: head.headers, url: exchange.url.text)
    }

    private var status: Int? {
        var status = 0
        guard latchkey_curl_get_long(curl, handle, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK, status > 0 else {
            return nil
        }
        return status
    }

    // MARK: Result

    /// What the exchange ends with, after libcurl has ended the transfer with `code`.
    func outcome(_ code: CURLcode) -> CurlExchange.Outcome {
        exchange.request.cookies?.didSet(head.headers.count { $0.isNamed("Set-Cookie") }, in: handle, curl)
        guard code == CURLE_OK, !isTooLarge else { return .failure(error(code)) }
        guard let status else { return .failure(.other(exchange.url.text, "the answer has no status")) }
        // Handed over and not shared: a caller that wipes the response wipes the only copy.
        var taken: [UInt8] = []
        swap(&taken, &body)
        return .success(HTTPResponse(status: status, headers: head.headers, body: taken, url: exchange.url.text))
    }

    private func error(_ code: CURLcode) -> HTTPError {
        if isTooLarge || code == CURLE_FILESIZE_EXCEEDED {
            return .tooLarge(exchange.url.text, "more than \(maximumSize) bytes, or too many header fields")
        }
        if hasRefusedAddress, code == CURLE_COULDNT_CONNECT { return .localAddress(at: exchange.url) }
        var proxyStatus = 0
        // A proxy that opens no tunnel is the second in libcurl 8.22, and was the first before.
        if code == CURLE_RECV_ERROR || code == CURLE_COULDNT_CONNECT,
            latchkey_curl_get_long(curl, handle, CURLINFO_HTTP_CONNECTCODE, &proxyStatus) == CURLE_OK,
            proxyStatus >= 300
        {
            return .refused(exchange.url.text, "the proxy opens no tunnel, its status is \(proxyStatus)")
        }
        // SAFETY: the buffer ends in NUL: it was zeroed, and libcurl ends what it writes.
        let text = errorText.baseAddress.map { withoutControlCharacters(String(cString: $0)) } ?? ""
        return HTTPError(code, at: exchange.url.text, meaning: meaning(of: code), detail: text)
    }
}

/// Whole milliseconds for libcurl, to which zero means no limit: at least one, at most what it takes.
private func milliseconds(_ duration: Duration) -> Int {
    let limited = min(max(duration, .milliseconds(1)), .milliseconds(Int32.max))
    let (seconds, attoseconds) = limited.components
    return Int(seconds) * 1_000 + Int(attoseconds / 1_000_000_000_000_000)
}

// SAFETY: libcurl gives `size * count` readable bytes and the context that was set: the transfer, which the loop
// holds.
private func receiveHeader(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    receive(bytes, size, count, context) { $0.receive(header: $1) }
}

// SAFETY: libcurl gives an address that is valid for this call, and the context as above.
private func allowsAddress(
    _ context: UnsafeMutableRawPointer?, _ family: Int32, _ address: UnsafeRawPointer?, _ size: UInt32
) -> Bool {
    guard let context else { return false }
    let bytes = UnsafeRawBufferPointer(start: address, count: Int(size))
    return Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue().allows(bytes, family: family)
}

private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    receive(bytes, size, count, context) { $0.receive(body: $1) }
}

/// The number of bytes taken; another number than was given ends the transfer.
private func receive(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?,
    _ take: (CurlTransfer, UnsafeRawBufferPointer) -> CurlTransfer.Verdict
) -> Int {
    let (total, overflow) = size.multipliedReportingOverflow(by: count)
    guard !overflow, total > 0, let bytes, let context else { return 0 }
    let transfer = Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
    return switch take(transfer, UnsafeRawBufferPointer(start: bytes, count: total)) {
    case .taken: total
    case .ends: 0
    case .waits: Int(CURL_WRITEFUNC_PAUSE)
    }
}

/// One request on its way to the thread of a `CurlLoop`, and its result on the way back. Thread-safe.
final class CurlExchange: Sendable {
    typealias Outcome = Result<HTTPResponse, HTTPError>

    let request: HTTPRequest
    let url: HTTPURL
    /// What is left for this exchange; greater than zero.
    let timeout: Duration
    /// Takes the body of a success; nil: the response has it.
    let receiver: HTTPBodyReceiver?
    private let gate: HTTPBodyGate?
    private let resume: @Sendable (CurlExchange) -> Void

    private let cancelled = Atomic(false)
    private let waiter = Mutex<CheckedContinuation<Outcome, Never>?>(nil)

    /// `resume` hears that a body which had to wait may come.
    init(
        _ request: HTTPRequest, at url: HTTPURL, within timeout: Duration, _ receiver: HTTPBodyReceiver? = nil,
        _ gate: HTTPBodyGate? = nil, resume: @escaping @Sendable (CurlExchange) -> Void = { _ in }
    ) {
        self.receiver = receiver
        self.gate = gate
        self.resume = resume
        self.request = request
        self.url = url
        self.timeout = timeout
    }

    /// Set before the loop is told, so that a cancellation which overtakes the start is not lost.
    var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func cancel() { cancelled.store(true, ordering: .releasing) }

    /// Whether the body has to wait. Asked again for what had to.
    var isHeldBack: Bool {
        gate?.holds { [weak self] in
            if let self { resume(self) }
        } ?? false
    }

    /// Names who waits. Called once, before the exchange is handed to the loop.
    func setWaiter(_ continuation: CheckedContinuation<Outcome, Never>) {
        waiter.withLock { $0 = continuation }
    }

    /// Resumes who waits, once. Later outcomes are dropped. Given away: this thread holds nothing of it when the other goes on.
    func finish(_ outcome: consuming Outcome) {
        let continuation = waiter.withLock { waiter in
            defer { waiter = nil }
            return waiter
        }
        if let continuation { continuation.resume(returning: outcome) }
    }
}

/// The header fields of a response, from the lines that libcurl hands on one at a time.
///
/// libcurl has read the status line and the framing by then. Interim responses (1xx) and the answers of a proxy start
/// over; trailers are left out.
struct ResponseHead {
    /// The most bytes that all fields of one response may have.
    static let maximumSize = 65_536

    private(set) var headers: [HTTPHeader] = []
    private var size = 0
    private var isComplete = false

    /// Takes one line with or without its line end. False where the fields are larger than `maximumSize`.
    mutating func receive(_ line: [UInt8]) -> Bool {
        guard line.count <= Self.maximumSize - size else { return false }
        size += line.count
        // A field name has no slash, so that this is a status line.
        if line.starts(with: "HTTP/".utf8) {
            self = ResponseHead()
            size = line.count
            return true
        }
        let text = Self.trimmed(line[...])
        if text.isEmpty {
            isComplete = true
        } else if isComplete {
            return true
        } else if let first = line.first, Self.isBlank(first) {
            // Obsolete line folding (RFC 9112, section 5.2).
            guard let last = headers.indices.last else { return true }
            headers[last].value += " " + String(decoding: text, as: UTF8.self)
        } else if let colon = text.firstIndex(of: UInt8(ascii: ":")) {
            headers.append(
                HTTPHeader(
                    name: String(decoding: Self.trimmed(text[..<colon]), as: UTF8.self),
                    value: String(decoding: Self.trimmed(text[text.index(after: colon)...]), as: UTF8.self)))
        }
        return true
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var bytes = bytes.drop(while: isBlank)
        while let last = bytes.last, isBlank(last) { bytes.removeLast() }
        return bytes
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0D || byte == 0x0A
    }
}
