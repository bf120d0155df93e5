// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySession
import LatchkeyProtection
public import LatchkeyViewingSession

/// What is kept on this device, whichever agent or process it came from. `settings` nil: those of the configuration file,
/// which may be named.
extension Agent {
    // MARK: Licences

    /// The PlayReady-style licences that are stored, in the order of their KIDs, and how their rights stand now. Looks,
    /// and changes nothing; makes no store where there is none. Keys are not among what it returns. Throws `configuration`
    /// where no PlayReady-style licences are configured, or the store cannot be used.
    public static func licenses(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> [StoredPlayReadyLicense] {
        let playReady = try playReady(settings, configurationFile)
        do {
            let configuration = try playReady.makeStoreConfiguration()
            guard configuration.isThere else { return [] }
            return try await LicenseStore.open(configuration).playReadyLicenses(policy: playReady.clockPolicy)
        } catch {
            throw .configuration("\(error)")
        }
    }

    /// Takes one licence out of the store. When it was first played stays: acquired again, it goes on from there. A
    /// playback that has its keys goes on. False where there is no such licence. Throws as `licenses`.
    @discardableResult
    public static func removeLicense(
        _ id: RecordID, settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> Bool {
        let playReady = try playReady(settings, configurationFile)
        do {
            let configuration = try playReady.makeStoreConfiguration()
            guard configuration.isThere else { return false }
            return try await LicenseStore.open(configuration).removePlayReadyLicense(id)
        } catch {
            throw .configuration("\(error)")
        }
    }

    /// Removes every license and domain from the license store, and every stored key of FairPlay-style key servers, whatever
    /// acquired them: “Reset DRM database”. Without `[playready]`, the store is the user's own. Returns how many records and
    /// keys there were. Throws `configuration` if the store or the folder of keys cannot be used.
    @discardableResult
    public static func resetLicenses(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> Int {
        let settings = try self.settings(settings, configurationFile)
        do {
            var count = 0
            if let store = try settings.licenseStore, store.isThere {
                count += try await LicenseStore.open(store).deleteAll()
            }
            if let keys = settings.storedKeys {
                count += try await keys.count
                try await keys.invalidateAll()
            }
            return count
        } catch {
            throw .configuration("\(error)")
        }
    }

    private static func playReady(
        _ settings: ControlSettings?, _ file: String?
    ) throws(AgentError) -> PlayReadySettings {
        guard let playReady = try self.settings(settings, file).playReady else {
            throw .configuration("no PlayReady-style licences are configured: there is no [playready]")
        }
        return playReady
    }

    // MARK: Viewing sessions

    /// The sessions that session servers may count for this device: those of playbacks that go on, in whatever process,
    /// and those that were left over. By name. Throws `configuration` where no session server is configured, or sessions
    /// are not written down.
    public static func viewingSessions(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> [SessionRecords.Entry] {
        try viewing(settings, configurationFile).records.entries.sorted { $0.session < $1.session }
    }

    /// Ends the sessions that processes left over at the configured server; those of processes that are still there stay.
    /// The next playback does the same: this is for whoever will not wait for it. Returns how many were ended,
    /// or given up after the fifth try, and how many could not be. Throws as `viewingSessions`.
    @discardableResult
    public static func endLeftOverViewingSessions(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> (ended: Int, left: Int) {
        let (session, records) = try viewing(settings, configurationFile)
        func leftOver() -> Set<String> {
            Set(records.entries.filter { $0.processID == nil && $0.serverURL == session.service.url }.map(\.session))
        }
        let before = leftOver()
        await ViewingSession(session).endOrphans()
        let left = leftOver().intersection(before)
        return (before.count - left.count, left.count)
    }

    private static func viewing(
        _ settings: ControlSettings?, _ file: String?
    ) throws(AgentError) -> (session: ViewingSession.Configuration, records: SessionRecords) {
        do {
            guard let viewing = try self.settings(settings, file).viewing else {
                throw AgentError.configuration(
                    "no session server is configured: there is no [session] with server-url")
            }
            let session = try viewing.makeConfiguration().session
            guard let records = session.records else {
                throw AgentError.configuration("sessions are not written down: records=none in [session]")
            }
            return (session, records)
        } catch let error as AgentError {
            throw error
        } catch {
            throw .configuration("\(error)")
        }
    }

    private static func settings(_ own: ControlSettings?, _ file: String?) throws(AgentError) -> ControlSettings {
        do throws(KeyError) { return try AgentSession.settings(own, file) } catch {
            throw .configuration("\(error)")
        }
    }
}
