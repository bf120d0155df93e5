// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Addresses of this machine and of networks around it: loopback, link-local, private (RFC 1918, RFC 4193), shared
/// (RFC 6598), and what is no address of one host on the Internet (RFC 6890).
enum LocalAddress {
    /// Whether a URL's host is such an address, or a name for this machine. Names are not looked up.
    static func isOne(host: String) -> Bool {
        var host = host.hasPrefix("[") && host.hasSuffix("]") ? host.dropFirst().dropLast() : host[...]
        if host.hasSuffix(".") { host.removeLast() }
        if host == "localhost" || host.hasSuffix(".localhost") { return true }
        // A zone, as in fe80::1%eth0, belongs to a local network.
        if host.contains("%") { return true }
        var four = in_addr()
        // A proxy may read what libcurl does not: fewer parts, octal and hexadecimal digits.
        if inet_aton(String(host), &four) != 0 { return isOne(withUnsafeBytes(of: &four) { Array($0) }) }
        var six = in6_addr()
        if inet_pton(AF_INET6, String(host), &six) == 1 { return isOne(withUnsafeBytes(of: &six) { Array($0) }) }
        return false
    }

    /// The same for an address as `connect` takes it. One of another family is local.
    static func isOne(_ address: UnsafeRawBufferPointer, family: Int32) -> Bool {
        let place =
            switch family {
            case AF_INET: 4..<8
            case AF_INET6: 8..<24
            default: 0..<0
            }
        guard !place.isEmpty, address.count >= place.upperBound else { return true }
        return isOne(Array(address[place]))
    }

    /// Of 4 or 16 bytes.
    private static func isOne(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == 16 else { return bytes.count != 4 || isOne(bytes[0], bytes[1], bytes[2]) }
        let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        let isTranslated = bytes.starts(with: [0x00, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0])
        if isMapped || isTranslated { return isOne(bytes[12], bytes[13], bytes[14]) }
        if bytes.starts(with: [0x20, 0x02]) { return isOne(bytes[2], bytes[3], bytes[4]) }
        // Global unicast (RFC 4291, 2.4) is 2000::/3 so far.
        return bytes[0] & 0xE0 != 0x20
    }

    private static func isOne(_ first: UInt8, _ second: UInt8, _ third: UInt8) -> Bool {
        switch (first, second, third) {
        case (0, _, _), (10, _, _), (127, _, _), (100, 64...127, _), (169, 254, _), (172, 16...31, _), (192, 0, 0),
            (192, 168, _), (198, 18...19, _), (224..., _, _):
            true
        default: false
        }
    }
}
