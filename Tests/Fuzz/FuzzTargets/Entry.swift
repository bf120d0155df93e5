// SPDX-License-Identifier: MPL-2.0

import Glibc

/// What libFuzzer calls. `LATCHKEY_FUZZ_TARGET` names the target.
@c(LLVMFuzzerTestOneInput)
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    chosen.run(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

private let chosen: FuzzTarget = {
    let name = getenv("LATCHKEY_FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget.named(name) else { fatalError("LATCHKEY_FUZZ_TARGET names no target: “\(name)”") }
    return target
}()
