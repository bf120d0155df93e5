// SPDX-License-Identifier: MPL-2.0

import CLibXML2

/// Whether XML can be read on this machine.
package enum XMLSupport {
    /// Why it cannot. Loads what it needs.
    package static var failure: FormatError? {
        do throws(FormatError) {
            _ = try XMLLibrary.shared()
            return nil
        } catch {
            return error
        }
    }
}

/// libxml2's functions. The library is loaded with the first document, and stays: it and ICU, which it brings, take a MiB, and
/// most files have no XML in them. Thread-safe, as far as the functions are.
struct XMLLibrary: @unchecked Sendable {
    // SAFETY: filled before anybody sees it, never changed and never freed. No function is missing in it.
    let functions: UnsafePointer<latchkey_xml>

    /// The one of this process; loaded with the first call, and ready for several threads.
    static func shared() throws(FormatError) -> XMLLibrary { try loaded.get() }

    private static let loaded = Result { () throws(FormatError) in
        let library = try XMLLibrary(file: LATCHKEY_LIBXML2_FILE)
        library.functions.pointee.InitParser()
        return library
    }

    /// Throws where there is no such library, or it lacks a function.
    init(file: String) throws(FormatError) {
        let functions = UnsafeMutablePointer<latchkey_xml>.allocate(capacity: 1)
        functions.initialize(to: latchkey_xml())
        var isLoaded: Int32 = 0
        if let reason = latchkey_xml_load(functions, file, &isLoaded).map({ String(cString: $0) }) {
            functions.deallocate()
            throw .unsupported(
                isLoaded != 0
                    ? "XML: \(file) has no \(reason)"
                    : "XML: libxml2 cannot be loaded (\(reason)); install it, on Debian 12 the package libxml2")
        }
        self.functions = UnsafePointer(functions)
    }
}
