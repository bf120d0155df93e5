// SPDX-License-Identifier: MPL-2.0

import LatchkeyDiagnosis
import Testing

/// What is said when GStreamer does not have the plug-in.
@Suite struct MissingPluginTests {
    private static let system = "/usr/lib/x86_64-linux-gnu/gstreamer-1.0"

    private func finding(
        searched: [String] = [], prefix: String?, files: Set<String> = [], failure: String? = nil
    ) -> Finding {
        MissingPlugin(systemFolder: Self.system, searchedFolders: searched, prefix: prefix)
            .finding(exists: files.contains, failure: { _ in failure })
    }

    @Test func whatIsNotThereIsToBeInstalledWhereGStreamerLooks() throws {
        let found = finding(prefix: "/opt/latchkey")
        #expect(found.level == .problem && found.text.contains("is not found"))
        let advice = try #require(found.advice)
        #expect(advice.contains("--prefix=/usr`") && advice.contains(Self.system), "\(advice)")
    }

    @Test(arguments: ["/usr/local/lib/x86_64-linux-gnu", "/usr/local/lib", "/usr/local/lib64"])
    func whatIsInstalledElsewhereIsNotToBeInstalledAgain(library: String) {
        let folder = "\(library)/gstreamer-1.0"
        let found = finding(prefix: "/usr/local", files: ["\(folder)/libgstlatchkey.so"])
        #expect(found.text.contains("is in \(folder), where GStreamer does not look"))
        #expect(found.advice?.hasPrefix("Set GST_PLUGIN_PATH=\(folder), or ") == true, "\(found)")
    }

    @Test func whatCannotBeLoadedAsksForItsLibrary() {
        let file = "\(Self.system)/libgstlatchkey.so"
        let found = finding(prefix: "/usr", files: [file], failure: "libgcrypt.so.20: cannot open shared object file")
        #expect(found.text.hasPrefix("the plug-in \(file) cannot be loaded: libgcrypt"), "\(found)")
        #expect(found.advice == "Install the library that is missing.")
    }

    @Test func whatCanBeLoadedIsAMatterOfTheRegistry() {
        let found = finding(searched: ["/opt"], prefix: "/opt", files: ["/opt/lib64/gstreamer-1.0/libgstlatchkey.so"])
        #expect(
            found.text.contains("registry lacks the plug-in /opt/lib64/gstreamer-1.0/libgstlatchkey.so"), "\(found)")
        #expect(found.advice?.hasPrefix("Remove the registry") == true)
    }

    @Test func withoutGStreamersFolderTheAdviceIsGeneral() {
        let found = MissingPlugin(systemFolder: nil, searchedFolders: [], prefix: nil)
            .finding(exists: { _ in false }, failure: { _ in nil })
        #expect(found.advice?.contains("GST_PLUGIN_PATH") == true)
    }
}
