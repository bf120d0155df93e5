// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
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
