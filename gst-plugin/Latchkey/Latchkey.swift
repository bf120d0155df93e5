// SPDX-License-Identifier: MPL-2.0

import CLatchkeyBuild
public import CLatchkeyGStreamer
import CLatchkeyVersion
public import LatchkeyElements
import LatchkeyElementKit
public import LatchkeyKeySession
public import LatchkeyProtection
import Synchronization

/// What an application written in Swift imports.
public enum Latchkey {
    /// The version of the library, `MAJOR.MINOR.MICRO`.
    public static let version = "\(LATCHKEY_VERSION_MAJOR).\(LATCHKEY_VERSION_MINOR).\(LATCHKEY_VERSION_MICRO)"

    /// What the log says of the library: the version, and the date of the build if it is known. `buildDate` has the
    /// digits YYYYMMDD.
    static func versionForLog(buildDate: Int32 = clatchkey_build_date()) -> String {
        guard buildDate > 0 else { return version }
        let (month, day) = (buildDate / 100 % 100, buildDate % 100)
        return "\(version) (\(buildDate / 10000)-\(month < 10 ? "0" : "")\(month)-\(day < 10 ? "0" : "")\(day))"
    }

    /// Registers the elements with the running process, so that no plug-in file is needed. Call it once, before the
    /// first pipeline is made; again does nothing. Thread-safe. False where GStreamer refuses an element.
    @discardableResult
    public static func registerElements() -> Bool { registerElements(with: nil) }

    /// Registers the elements with a plug-in that GStreamer is loading.
    public static func registerElements(with plugin: OpaquePointer?) -> Bool {
        // Not with the lock, for which a thread may wait that loads the plug-in while it starts GStreamer.
        if plugin == nil { GStreamer.initializeWholly() } else { GStreamer.initialize() }
        PipelineSession.logFileWarnings()
        return registration.withLock { _ in
            (DecryptorFactory.all + AdaptiveDemuxerFactory.all + [GuardFactory.outputGuard]).allSatisfy {
                ElementType.register($0, with: plugin)
            }
                && (DecryptorFactory.types + AdaptiveDemuxerFactory.types).allSatisfy { $0.register(with: plugin) }
        }
    }

    private static let registration = Mutex(())

    /// What the configuration file and the environment say, as elements read them. Throws `invalidConfiguration` with
    /// the file and the line.
    public static func settings() throws(KeyError) -> ControlSettings { try PipelineSession.settings() }

    /// Makes the Latchkey elements in `pipeline`, now and later, use `session` with its loaders. Call it before the
    /// pipeline leaves READY. The pipeline keeps the session. Thread-safe.
    public static func attach(_ session: KeySession, to pipeline: UnsafeMutablePointer<GstElement>) {
        PipelineSession.attach(session, to: pipeline)
    }

    /// Gives a loader to every pipeline whose session the application does not make itself: one call, before the first
    /// pipeline leaves READY, as TVSDK's `registerPTAVAssetResourceLoader`. It is asked before what the configuration
    /// file names. `ResourceLoaderFactory.default` takes more, as the key payload provider. Thread-safe.
    public static func register(_ loader: any ResourceLoader) { ResourceLoaderFactory.default.register(loader) }

    /// Has the platform decrypt into memory that the CPU may not see, where a decoder takes such memory. Several are
    /// asked in order. HLS may have it if it was registered before the demuxer starts. `SecureDecryptors.unregister` takes it
    /// back. Thread-safe.
    public static func register(_ decryptor: any SecureDecryptor) { SecureDecryptors.register(decryptor) }
}
