// Package blockstore is the prefix cache on SSD. It keeps the keys, values and states that a model
// computed for the beginnings of conversations, so that they survive restarts. It stores bytes and
// does not depend on models or devices.
//
// # What is stored
//
//   - A block: keys and values of BlockTokens tokens after its parent block, in the format of the
//     KV cache.
//   - A tail: the same for fewer tokens. No entry follows a tail. When the sequence grows, a block
//     is stored at the same position, beside the tail.
//   - A state: a model's recurrent state, 0 to BlockTokens-1 tokens after its parent block.
//
// Each block, tail or state is an entry: one safetensors file (header.go), named by the SHA-256 of
// everything it was computed from (key.go), and one row of the index (index.go). The files are
// authoritative. The index only finds them, and is rebuilt from them if it is lost.
//
// With Options.Key the folder is encrypted (sealed.go): files are sealed, names are keyed hashes,
// and rows have no readable tokens or titles. Each entry has a key of its own, which removing the
// entry destroys.
//
// # Guarantees
//
//   - No wrong byte is returned. A file ends with a checksum over all of it, or is sealed with
//     AES-256-GCM. Its name follows from its content, and Read compares its tokens with the
//     requested ones. A file that fails a check is a miss: it is removed and counted.
//   - A file appears whole: it is written under a temporary name, synced and renamed. Its row is
//     created earlier, to reserve its bytes, but queries return the row only once the file is in
//     place.
//   - The files never exceed their cap, the free disk never falls below its reserve, and a day's
//     writes never exceed their budget, however many processes share the folder: bytes are reserved
//     in a transaction before they are written (budget.go).
//   - Using an entry also counts as a use of every entry before it. Eviction takes the least
//     recently used entry that has no children.
//   - Find and Save never wait for the writer. If its queue is full, Save drops the sequence and
//     counts it.
//
// View.Save queues a sequence for the writer (save.go). View.Find asks the index (find.go), and
// View.Read reads and verifies files (load.go). After opening, sweep.go makes index and folder
// agree. browse.go and pin.go list, remove and pin conversations for the user.
package blockstore
