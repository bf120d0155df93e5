// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import LatchkeyOffline
    import Testing

    @testable import Latchkey
    @testable import latchkey

    /// How `latchkey cache` ends.
    @Suite struct CacheTests {
        private let scratch = ScratchFolder()

        /// No URL is known of it, so that it is not in the list.
        @Test func whatCannotBeRemovedByNameIsNotGone() async throws {
            try scratch.write([UInt8](repeating: 7, count: 4096), to: "cache/item/index.db")
            let purge = try CachePurgeCommand.parse(["--all", "--yes", "--cache", scratch.path("cache")])
            let error = await #expect(throws: ExitCode.self) { try await purge.run() }
            #expect(error == .failure)
            #expect(try scratch.read("cache/item/index.db").count == 4096)
            // An empty cache, and what is no item, are no reason.
            try scratch.write([1], to: "other/letter")
            try await CachePurgeCommand.parse(["--all", "--yes", "--cache", scratch.path("other")]).run()
            try await CachePurgeCommand.parse(["--all", "--yes", "--cache", scratch.path("none")]).run()
        }

        @Test func theListSaysWhatIsWrongWithAnItem() throws {
            let cache = ContentCache(.init(folder: scratch.path("cache")))
            let content = try CachedContent(url: "https://media.example/a.mp4", type: .mp4, cache: cache)
            var progress = CachedItem.Progress()
            progress.status = .failed(CacheError(.damaged, "the index\u{1B}\ncomplete"))
            let damaged = CacheState(content, progress)
            progress = CachedItem.Progress()
            progress.warning = CacheError(.licenseNotKept, "the key")
            let lines = CacheListCommand.lines([damaged, CacheState(content, progress)])
            #expect(lines.count == 5 && lines[1].hasPrefix("failed"))
            #expect(lines[3] == "error: https://media.example/a.mp4: damaged: the index\u{FFFD}\u{FFFD}complete")
            #expect(lines[4] == "warning: https://media.example/a.mp4: license cannot be kept: the key")
        }

        /// Before anything is fetched.
        @Test func whatCannotBeCachedHasAStatusOfItsOwn() async throws {
            let add = try CacheAddCommand.parse(
                ["--cache", scratch.path("cache"), "--type", "smooth", "https://media.example/film.ism/Manifest"])
            let error = await #expect(throws: ExitCode.self) { try await add.run() }
            #expect(error == ExitCode(4))
            let file = try CacheAddCommand.parse(["--cache", scratch.path("cache"), "/film.mp4"])
            await #expect(throws: ToolError.self) { try await file.run() }
        }

        /// Playback would end with it.
        @Test func aConfigurationThatCannotBeUsedIsSaid() {
            #expect(CacheAddCommand.obstacle(.configuration("line 3")) == "configuration: line 3")
            #expect(CacheAddCommand.obstacle(.unreachable("https://media.example")) == nil)
        }
    }
#endif
