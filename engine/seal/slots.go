package seal

// A file of slots has a header of 128 bytes, then a salt of 32 bytes in each slot. Slots are
// overwritten in place, and zeros mean an empty slot.
//
//	 0  "HRSLOTS1"
//	 8  ID of the folder's key, 8 bytes
//	16  random salt of the wrapping, 32 bytes
//	48  the folder's key, sealed with a key derived from the installation's key, 48 bytes
//	96  zeros
//
// The folder's key is random. Keys of entries are derived from it and a slot's salt. As it is
// wrapped, a folder can be handed to another installation (Rewrap) without telling it anything but
// that folder's key.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

const (
	slotsMagic       = "HRSLOTS1"
	slotsHeaderBytes = 128
	wrappedBytes     = KeyBytes + TagBytes
)

// SlotFile is an open file of slots.
type SlotFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Stat() (fs.FileInfo, error)
}

// Slots is an open file of slots with the folder's key. Its methods may be called concurrently, for
// different slots. Several processes may have the file open.
type Slots struct {
	file SlotFile
	key  Key
}

// IsSlots reports whether the bytes are the beginning of a file of slots.
func IsSlots(b []byte) bool { return len(b) >= len(slotsMagic) && string(b[:8]) == slotsMagic }

// CreateSlots writes the header of a new file and syncs it. folder is the folder's key, usually a
// new one. Slots owns the file if the error is nil.
func CreateSlots(f SlotFile, installation, folder Key) (*Slots, error) {
	s := &Slots{f, folder}
	if err := s.Rewrap(installation); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenSlots reads the folder's key. The error is ErrOtherKey if another installation's key wraps
// it. Slots owns the file if the error is nil.
func OpenSlots(f SlotFile, installation Key) (*Slots, error) {
	h, err := readSlotsHeader(f)
	if err != nil {
		return nil, err
	}
	secret, err := wrapper(installation, h[16:48]).Open(0, h[48:48+wrappedBytes], h[:16])
	if err != nil {
		return nil, ErrOtherKey
	}
	key, err := KeyOf(secret)
	return &Slots{f, key}, err
}

// OpenSlotsWith opens the file with the folder's key itself. The error is ErrOtherKey if it is not
// this folder's.
func OpenSlotsWith(f SlotFile, folder Key) (*Slots, error) {
	h, err := readSlotsHeader(f)
	if err != nil {
		return nil, err
	}
	if folder.ID() != ID(h[8:16]) {
		return nil, ErrOtherKey
	}
	return &Slots{f, folder}, nil
}

func readSlotsHeader(f SlotFile) ([]byte, error) {
	h := make([]byte, slotsHeaderBytes)
	if n, err := f.ReadAt(h, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if n < len(h) || !IsSlots(h) {
		return nil, fmt.Errorf("%w: %d bytes are not the header of a file of keys", ErrUnsealed, n)
	}
	return h, nil
}

func wrapper(installation Key, salt []byte) Texts {
	return installation.Derive("folder", salt).Texts()
}

// Rewrap writes the header with the folder's key for this installation, and syncs it.
func (s *Slots) Rewrap(installation Key) error {
	id, salt := s.key.ID(), NewKey().secret
	h := append([]byte(slotsMagic), id[:]...)
	wrapped := wrapper(installation, salt[:]).Seal(0, s.key.secret[:], h)
	h = append(append(h, salt[:]...), wrapped...)
	h = append(h, make([]byte, slotsHeaderBytes-len(h))...)
	if _, err := s.file.WriteAt(h, 0); err != nil {
		return err
	}
	return s.file.Sync()
}

// Folder returns the folder's key.
func (s *Slots) Folder() Key { return s.key }

func slotAt(slot uint32) int64 { return slotsHeaderBytes + KeyBytes*int64(slot) }

// Fill writes a random salt into a slot and returns its key. It does not sync.
func (s *Slots) Fill(slot uint32) (Key, error) {
	salt := NewKey().secret
	if _, err := s.file.WriteAt(salt[:], slotAt(slot)); err != nil {
		return Key{}, err
	}
	return s.key.Derive("entry", salt[:]), nil
}

// Key returns the key of a slot; ErrNoSalt if the slot is empty.
func (s *Slots) Key(slot uint32) (Key, error) {
	var salt [KeyBytes]byte
	n, err := s.file.ReadAt(salt[:], slotAt(slot))
	if err != nil && !errors.Is(err, io.EOF) {
		return Key{}, err
	}
	if n < len(salt) || salt == [KeyBytes]byte{} {
		return Key{}, ErrNoSalt
	}
	return s.key.Derive("entry", salt[:]), nil
}

// Destroy empties slots. The salts are gone once Sync has returned.
func (s *Slots) Destroy(slots ...uint32) error { return DestroySlots(s.file, slots...) }

// DestroySlots empties slots of a file without its key. A slot after the end is no error.
func DestroySlots(f SlotFile, slots ...uint32) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var zeros [KeyBytes]byte
	for _, slot := range slots {
		if slotAt(slot) >= info.Size() {
			continue
		}
		if _, err := f.WriteAt(zeros[:], slotAt(slot)); err != nil {
			return err
		}
	}
	return nil
}

// Sync makes what was written and destroyed durable. On a Mac it also empties the drive's cache.
func (s *Slots) Sync() error { return s.file.Sync() }

// Count returns the number of slots in the file, empty ones included.
func (s *Slots) Count() (uint32, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	return uint32(max(0, info.Size()-slotsHeaderBytes+KeyBytes-1) / KeyBytes), nil
}

// Full returns the slots that are not empty, by number.
func (s *Slots) Full() (map[uint32]bool, error) {
	full := map[uint32]bool{}
	count, err := s.Count()
	if err != nil {
		return nil, err
	}
	all := make([]byte, int64(count)*KeyBytes)
	if _, err := s.file.ReadAt(all, slotsHeaderBytes); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for slot := range count {
		if [KeyBytes]byte(all[slot*KeyBytes:]) != [KeyBytes]byte{} {
			full[slot] = true
		}
	}
	return full, nil
}

// Close closes the file.
func (s *Slots) Close() error { return s.file.Close() }

// FormatKey returns a folder's key as a line of text, for another installation.
func FormatKey(k Key) string { return fmt.Sprintf("%s%x", keyPrefix, k.secret[:]) }

const keyPrefix = "headroom-cache-key-"

// ParseKey is the inverse of FormatKey.
func ParseKey(text string) (Key, error) {
	var secret []byte
	if _, err := fmt.Sscanf(text, keyPrefix+"%x", &secret); err != nil || len(secret) != KeyBytes {
		return Key{}, fmt.Errorf("expected %s and %d hexadecimal digits", keyPrefix, 2*KeyBytes)
	}
	return KeyOf(secret)
}
