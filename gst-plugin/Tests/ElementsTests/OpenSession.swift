// SPDX-License-Identifier: MPL-2.0

import ElementKit
import ElementTestSupport
import LicenseControl

@testable import Elements

/// A session that a test holds, with the context that brings elements to it.
struct OpenSession {
    let session: KeySession
    let context: Context

    init() throws {
        // The first element of a pipeline makes the session.
        let harness = try Harness("latchkeycencdec")
        guard let session = Decryptor.implementation(of: harness.element)?.currentSession,
            let context = ElementReference(harness.element).context(type: SharedSession.contextType)
        else { throw TestFailure("the element shares no session") }
        self.session = session
        self.context = context
    }
}
