# SPDX-License-Identifier: MPL-2.0
# To be sourced. The groups in which the Swift tests run, each in a process of its own.

# FUNCTION: calls it with the name of each group and the arguments that choose its tests.
for_each_test_group() {
    # Pipelines apart from what computes: both want the few threads that Swift's tasks have.
    "$1" library --skip 'ElementKitTests|ElementsTests|HLSDemuxTests'
    "$1" elements --filter 'ElementKitTests|ElementsTests'
    "$1" hls --filter HLSDemuxTests
}
