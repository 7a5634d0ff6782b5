// Package seal encrypts files at rest: the prefix cache on SSD (engine/blockstore) and the chats
// (app/chats). It uses only Go's standard library: AES-256-GCM, HKDF-SHA-256 and the system's
// random numbers.
//
//	key.go      keys, keys derived from them, and short sealed texts
//	file.go     a sealed file: a header in the clear, then chunks that are sealed one by one
//	slots.go    a file of salts, one per entry of a folder; without its salt an entry is noise
//	destroy.go  overwriting and removing a small file
//
// # Why forgetting destroys a key
//
// A file system does not overwrite the blocks of a removed file, and an SSD may keep old copies of
// what was overwritten. So a sealed file's key depends on a salt of 32 bytes in a place of its own.
// Forgetting overwrites the salt and syncs it before the file is removed. What the disk still holds
// of the file cannot be decrypted again, not even with the installation's key.
//
// What may survive is the salt itself: in a copy that the SSD's wear leveling or a copy-on-write
// file system has not erased yet, in a snapshot, and in a backup. Somebody who has such a copy, the
// old file and the installation's key can read the file.
package seal
