// SPDX-License-Identifier: MPL-2.0

extension SamplePlan {
    /// Checks that the subsamples, where there are any, are together exactly a sample of `size` bytes: for decryption that
    /// is done elsewhere. `SampleCipher` checks by itself.
    public func checkSubsamples(coverAll size: Int) throws(DecryptionError) {
        guard !subsamples.isEmpty else { return }
        try subsamples.withUnsafeBufferPointer { subsamples throws(DecryptionError) in
            try CheckedSample.check(subsamples, coverAll: size)
        }
    }
}
