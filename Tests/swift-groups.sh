# SPDX-License-Identifier: MPL-2.0
# To be sourced. The groups in which the Swift tests run, each in a process of its own.

# So many tests at once. Without a limit all begin together, and have more files open than Foundation's Process can bear:
# above 1,365 it reads beyond the list of them.
width=(--experimental-maximum-parallelization-width 16)

# FUNCTION: calls it with the name of each group and the arguments that choose its tests.
for_each_test_group() {
    # Pipelines apart from what computes: both want the few threads that Swift's tasks have.
    "$1" library "${width[@]}" --skip 'Latchkey(ElementKit|Elements|HLSDemux)Tests'
    "$1" elements "${width[@]}" --filter 'Latchkey(ElementKit|Elements)Tests'
    "$1" hls "${width[@]}" --filter LatchkeyHLSDemuxTests
}
