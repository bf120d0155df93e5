// SPDX-License-Identifier: MPL-2.0

/// The part of a caller's table that the caller knows of; the rest stays as it is in `table`. Nil where there is none,
/// or where the part does not reach behind its own size.
///
/// Every table begins with its size.
func readTable<Table: BitwiseCopyable>(_ start: UnsafePointer<Table>?, into table: Table) -> Table? {
    guard let start else { return nil }
    // Whole words alone: half a pointer would be called.
    let word = MemoryLayout<Int>.size
    // SAFETY: the size is there, whatever else is: an older application's table may end before ours.
    let known = min(UnsafeRawPointer(start).load(as: Int.self), MemoryLayout<Table>.size) & ~(word - 1)
    guard known > word else { return nil }
    var table = table
    // SAFETY: the caller's table has as many bytes as it says, and ours no fewer than are copied.
    withUnsafeMutableBytes(of: &table) { $0.copyMemory(from: UnsafeRawBufferPointer(start: start, count: known)) }
    return table
}
