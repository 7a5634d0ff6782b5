// Package blockstore is the block cache on SSD: what a model computed about the beginning of a
// conversation, kept over restarts. It stores bytes and knows nothing of models or devices.
//
// # What is stored
//
//   - A block: keys and values of BlockTokens tokens behind its parent block, in the cache's own format.
//   - A tail: the same for fewer tokens. Nothing chains behind it; the block that a longer sequence has there stands beside it.
//   - A state: a model's recurrent state after 0 to BlockTokens-1 tokens behind its parent, the last full block before it.
//
// Each is an entry: one safetensors file (header.go) whose name is the SHA-256 of what it was
// computed from (key.go), and one row of the index (index.go). The files are the truth, and the
// index a way to find them: it can be thrown away at any time.
//
// # What holds
//
//   - No wrong byte is ever handed out: a file ends with a checksum of all of it, its content gives its name, and what is used of it
//     are the tokens asked for. A file that fails this is a miss; it is removed and counted.
//   - A file appears whole: it is written under another name, synced and renamed. Its row is made before it, to reserve its bytes,
//     and found by nobody until it is there.
//   - Together the files are never above their cap, the disk never below its reserve, a day's writes never above their budget,
//     whatever number of processes share the folder: bytes are reserved in a transaction before they are written (budget.go).
//   - An entry was used no earlier than what lies behind it, so the least recently used entry that has no children is the one to evict.
//   - Find and Save never wait for the disk's writer: a full queue drops, and is counted.
//
// The ways through: View.Save hands a sequence to the writer (save.go); View.Find asks the index
// (find.go) and View.Load reads and verifies files (load.go); sweep.go makes index and folder agree
// after opening; browse.go and pin.go are for people.
package blockstore
