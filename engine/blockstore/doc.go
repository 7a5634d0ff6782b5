// Package blockstore is the prefix cache on SSD. It stores the keys, values and states that a model
// computed for the beginning of a conversation, across restarts. It stores bytes and does not
// depend on models or devices.
//
// # What is stored
//
//   - A block: keys and values of BlockTokens tokens after its parent block, in the cache's own
//     format.
//   - A tail: the same for fewer tokens. Nothing follows a tail; a longer sequence has a block at
//     the same position beside it.
//   - A state: a model's recurrent state after 0 to BlockTokens-1 tokens that follow its parent,
//     the last full block before it.
//
// Each of them is an entry: one safetensors file (header.go), named by the SHA-256 of everything it
// was computed from (key.go), and one row of the index (index.go). The files are the truth. The
// index only finds them and can be deleted at any time.
//
// # Guarantees
//
//   - No wrong byte is returned. A file ends with a checksum over all of it, its name follows from
//     its content, and Load compares the tokens it uses with those asked for. A file that fails a
//     check is a miss: it is removed and counted.
//   - A file appears whole: it is written under another name, synced and renamed. Its row exists
//     earlier, to reserve its bytes, but no query returns it until the file is in place.
//   - The files never exceed their cap, the free disk never falls below its reserve, and a day's
//     writes never exceed their budget, however many processes share the folder: bytes are reserved
//     in a transaction before they are written (budget.go).
//   - An entry was used no earlier than the entries that follow it. Eviction therefore takes the
//     least recently used entry that has no children.
//   - Find and Save never wait for the writer. A full queue drops the sequence and counts it.
//
// View.Save queues a sequence for the writer (save.go). View.Find asks the index (find.go), and
// View.Load reads and verifies files (load.go). After opening, sweep.go makes index and folder
// agree. browse.go and pin.go list, remove and pin conversations for the user.
package blockstore
