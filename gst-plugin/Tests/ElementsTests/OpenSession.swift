// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyKeySession

@testable import LatchkeyElements

/// A session that a test holds, with the context that brings elements to it. The context does not keep the session: hold this
/// until an element has it.
final class OpenSession {
    let session: KeySession
    let context: Context
    private let harness: Harness

    init() throws {
        // The first element of a pipeline makes the session.
        let harness = try Harness("latchkeycencdec")
        guard let session = Decryptor.implementation(of: harness.element)?.currentSession,
            let context = ElementReference(harness.element).context(type: SharedSession.contextType)
        else { throw TestFailure("the element shares no session") }
        self.session = session
        self.context = context
        self.harness = harness
    }
}
