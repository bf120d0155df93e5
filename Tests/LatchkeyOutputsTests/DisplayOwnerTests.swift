// SPDX-License-Identifier: MPL-2.0

import LatchkeyOutputs
import Testing

@Suite struct DisplayOwnerTests {
    @Test(
        arguments: [
            ([:], DisplayOwner.master), (["DISPLAY": ":0"], .master), (["WAYLAND_DISPLAY": ""], .master),
            (["WAYLAND_DISPLAY": "wayland-0"], .waylandCompositor), (["WAYLAND_SOCKET": "3"], .waylandCompositor),
        ] as [([String: String], DisplayOwner)])
    func theEnvironmentTells(environment: [String: String], owner: DisplayOwner) {
        #expect(DisplayOwner(environment: environment) == owner)
    }

    @Test func theAdviceNamesWhoHasToAsk() {
        #expect(DisplayOwner.waylandCompositor.advice.contains("weston_content_protection"))
        #expect(DisplayOwner.waylandCompositor.advice.contains("allow_hdcp"))
        #expect(DisplayOwner.master.advice.contains("display-fd"))
    }
}
